// A bound that several threads lower.
#pragma once

#include <atomic>

namespace idcwh {

// Lowers the bound to `value` unless it is lower already. Relaxed: a bound that is read late costs time only.
template <class T>
void lower_to(std::atomic<T>& bound, T value) {
    T known = bound.load(std::memory_order_relaxed);
    while (value < known && !bound.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
    }
}

}  // namespace idcwh
