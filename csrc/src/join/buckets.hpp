// Codes in the order of one part. Codes with the same value of the part form a bucket.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_array.hpp"
#include "base/interrupt.hpp"
#include "join/plan.hpp"

namespace idcwh::join_detail {

struct Buckets {
    HugeArray<std::uint32_t> begins;   // [2^width + 1]
    HugeArray<std::uint32_t> numbers;  // number of each code, ascending per bucket
    HugeArray<std::uint8_t> codes;     // copies, in the same order
};

Buckets sort_by(const Part& part, const Codes& codes, unsigned threads, Stop& stop);

}  // namespace idcwh::join_detail
