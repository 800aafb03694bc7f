// Equal rows of bytes get equal numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace idcwh::metrics {

struct Distinct {
    std::vector<std::uint32_t> number;  // of each row: 0, 1, ... in the order in which new rows appear
    std::vector<std::uint32_t> first;   // the first row of each number

    std::size_t size() const { return first.size(); }
};

// rows: n rows of `bytes` bytes, fewer than 2^32.
Distinct distinct_rows(const std::uint8_t* rows, std::size_t n, std::size_t bytes);

}  // namespace idcwh::metrics
