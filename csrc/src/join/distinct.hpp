// The distinct codes of one input of a join, with the rows of each.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>

#include "base/huge_array.hpp"
#include "base/interrupt.hpp"

namespace idcwh::join_detail {

struct Distinct {
    std::size_t size = 0;
    unsigned bits = 0;
    HugeArray<std::uint8_t> codes;    // [size] in the order of their first rows
    HugeArray<std::uint32_t> begins;  // [size + 1] into rows
    HugeArray<std::uint32_t> rows;    // by code, ascending; some bytes after them may be read

    Codes view() const { return {codes.data(), size, bits}; }
    std::size_t bytes() const { return code_bytes(bits); }
    const std::uint8_t* code(std::size_t at) const { return codes.data() + at * bytes(); }
    std::uint64_t count(std::size_t at) const { return begins[at + 1] - begins[at]; }
};

// Returns the distinct codes of fewer than 2^32 codes.
Distinct distinct_codes(const Codes& codes, unsigned threads, Stop& stop);

}  // namespace idcwh::join_detail
