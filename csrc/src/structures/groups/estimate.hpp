// An estimate of the number of distinct codes, in one pass and little memory.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>

#include "base/interrupt.hpp"

namespace idcwh {

struct DistinctEstimate {
    std::size_t distinct;
    bool exact;  // all distinct codes were counted
};

// Estimates the number within 1 or 2 percent. Exact up to 2^15 distinct codes.
DistinctEstimate estimate_distinct(const Codes& codes, Stop& stop);

}  // namespace idcwh
