// Codes in the order of one part: those with the same value of it lie together, in a bucket.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_array.hpp"
#include "base/interrupt.hpp"
#include "join/plan.hpp"

namespace idcwh::join_detail {

struct Buckets {
    HugeArray<std::uint32_t> begins;   // [2^width + 1]
    HugeArray<std::uint32_t> numbers;  // of the distinct codes, ascending in each bucket
    HugeArray<std::uint8_t> codes;     // copies, in the same order
};

Buckets sort_by(const Part& part, const Distinct& distinct, unsigned threads, Stop& stop);

}  // namespace idcwh::join_detail
