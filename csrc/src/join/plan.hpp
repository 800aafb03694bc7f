// The plan of a join: the substrings of codes that are compared, and how far each may differ.
//
// General pigeonhole principle (Qin et al.: GPH, 2018). Choose thresholds t_i of the parts with sum(t_i + 1) > radius.
// Then two codes within the radius are within t_i of each other in at least one part i. So only codes whose part i is
// within t_i are compared, for each part with a threshold.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "join/distinct.hpp"

namespace idcwh::join_detail {

// Bits [offset, offset + width) of a code. Codes that differ in at most `threshold` of them are compared.
struct Part {
    unsigned offset, width, threshold;
};

struct JoinPlan {
    std::vector<Part> parts;  // a single one of no width: all codes are compared
    double compared = 0;      // pairs of distinct codes, expected
    double nanoseconds = 0;   // expected, on one thread

    std::string describe() const;
};

// Plans the join of a and b, or of a with itself if they are the same object. The plan is a function of the codes and
// the radius alone, not of the machine, because the order of the pairs follows from it.
JoinPlan plan_join(const Distinct& a, const Distinct& b, unsigned radius);

}  // namespace idcwh::join_detail
