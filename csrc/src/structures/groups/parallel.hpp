// A sort on several threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/pool.hpp"

namespace idcwh {

template <class Value, class Less>
void parallel_sort(std::vector<Value>& values, unsigned threads, const Less& less) {
    constexpr std::size_t least_part = std::size_t{1} << 16;
    std::size_t parts = 1;
    while (parts < threads && values.size() / (2 * parts) >= least_part) parts *= 2;
    const auto at = [&](std::size_t part) {
        return values.begin() + static_cast<std::ptrdiff_t>(values.size() * part / parts);
    };
    pool::run(parts, threads, [&](std::size_t part) { std::sort(at(part), at(part + 1), less); });
    for (std::size_t width = 1; width < parts; width *= 2)
        pool::run(parts / (2 * width), threads, [&](std::size_t pair) {
            const std::size_t first = 2 * width * pair;
            std::inplace_merge(at(first), at(first + width), at(first + 2 * width), less);
        });
}

}  // namespace idcwh
