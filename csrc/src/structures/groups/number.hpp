// Numbers the distinct codes of a data set in the order of their values, and tells each place the number of its code.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/interrupt.hpp"

namespace idcwh {

struct Numbering {
    std::vector<std::uint8_t> codes;   // the distinct ones, by value (as little-endian numbers)
    std::vector<std::uint32_t> sizes;  // how many places have each
};

// order: the row of each place; null: the same number. distinct: how many there are, about. group_of [size] receives
// the number of each place's code; scratch [size] is for the time in between.
Numbering number_codes(const Codes& codes, const std::uint32_t* order, std::size_t distinct, std::uint32_t* group_of,
                       std::uint32_t* scratch, unsigned threads, Stop& stop);

}  // namespace idcwh
