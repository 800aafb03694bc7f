// The plan of a join: the substrings of codes that are compared, and how far each may differ.
//
// General pigeonhole principle (Qin et al.: GPH, 2018). Choose thresholds t_i of the parts with sum(t_i + 1) > radius.
// Then two codes within the radius are within t_i of each other in at least one part i. So only codes whose part i is
// within t_i are compared, for each part with a threshold.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace idcwh::join_detail {

// Bits [offset, offset + width) of a code. Codes that differ in at most `threshold` of them are compared.
struct Part {
    unsigned offset, width, threshold;
};

struct JoinPlan {
    std::vector<Part> parts;  // a single one of no width: all codes are compared
    double compared = 0;      // pairs of codes, expected
    double nanoseconds = 0;   // expected, on one thread

    // True if there are no parts: all codes are compared.
    bool scans() const { return parts.size() == 1 && parts[0].width == 0; }
    std::string describe() const;
};

// Plans the join of a and b, or of a with itself. The plan is a function of the codes and the radius alone, not of the
// machine, because the order of the pairs follows from it. Otherwise a has at least as many codes as b.
JoinPlan plan_join(const Codes& a, const Codes& b, bool self, unsigned radius);

// Plans the join of na and nb codes that are like the given ones. without_sample: reads no codes, and expects uniform
// ones, whose join costs least.
JoinPlan plan_join(const Codes& codes, std::size_t na, std::size_t nb, unsigned radius, bool without_sample);

// Returns the cost of comparing each code of one side with each of the other, in the nanoseconds of the plans.
double compare_all_ns(double pairs, unsigned bits);

}  // namespace idcwh::join_detail
