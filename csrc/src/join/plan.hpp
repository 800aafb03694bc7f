// The plan of a join: into which substrings codes are split, and how far each may differ.
//
// General pigeonhole principle (Qin et al.: GPH, 2018): two codes within `radius` are, in at least one part i, within
// its threshold t_i, whatever thresholds with sum(t_i + 1) > radius are chosen. So only codes whose part i is within
// t_i are compared, for each part with a threshold.
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

// Of a with itself where they are the same. A function of the codes and the radius alone: not of the machine, because
// the order of the pairs follows from it.
JoinPlan plan_join(const Distinct& a, const Distinct& b, unsigned radius);

}  // namespace idcwh::join_detail
