// How many distinct codes there are, about, in one pass and little memory.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>

#include "base/interrupt.hpp"

namespace idcwh {

struct DistinctEstimate {
    std::size_t distinct;
    bool exact;  // few enough to be counted
};

// Within 1 or 2 percent; exact up to 2^15 distinct codes.
DistinctEstimate estimate_distinct(const Codes& codes, Stop& stop);

}  // namespace idcwh
