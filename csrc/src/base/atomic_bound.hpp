// lower_to(): lowers a bound that several threads share.
#pragma once

#include <atomic>

namespace idcwh {

// Lowers the bound to `value` unless it is lower already. Relaxed order suffices: a thread that reads an old bound does
// more work, but its result is the same.
template <class T>
void lower_to(std::atomic<T>& bound, T value) {
    T known = bound.load(std::memory_order_relaxed);
    while (value < known && !bound.compare_exchange_weak(known, value, std::memory_order_relaxed)) {
    }
}

}  // namespace idcwh
