// distinct_rows(): gives equal rows of bytes equal numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace idcwh::metrics {

struct Distinct {
    std::vector<std::uint32_t> number;  // number of each row: 0, 1, ... in order of first appearance
    std::vector<std::uint32_t> first;   // first row of each number

    std::size_t size() const { return first.size(); }
};

// Numbers n rows of `bytes` bytes; n < 2^32.
Distinct distinct_rows(const std::uint8_t* rows, std::size_t n, std::size_t bytes);

}  // namespace idcwh::metrics
