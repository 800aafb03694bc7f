// Numbers the distinct codes of a dataset in the order of their values.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/interrupt.hpp"

namespace idcwh {

struct Numbering {
    std::vector<std::uint8_t> codes;   // the distinct codes, sorted by value as little-endian numbers
    std::vector<std::uint32_t> sizes;  // places per distinct code
};

// Numbers the codes. order: the row of each place; null: the same number. distinct: their estimated number. group_of
// [size] receives the number of each place's code. scratch [size] is temporary memory.
Numbering number_codes(const Codes& codes, const std::uint32_t* order, std::size_t distinct, std::uint32_t* group_of,
                       std::uint32_t* scratch, unsigned threads, Stop& stop);

}  // namespace idcwh
