// See plan.hpp.
#include "join/plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "cpu/dispatch.hpp"
#include "cpu/kernels/kernels.hpp"
#include "structures/multi_index/bits.hpp"

namespace idcwh::join_detail {
namespace {

// Nanoseconds on Zen 5 with AVX-512 VPOPCNTDQ (benchmarks/join.py).
constexpr double compare_ns = 0.03, compare_byte_ns = 0.005;  // a pair that is compared
constexpr double hit_ns = 40;                                 // one that is within the radius
constexpr double visit_ns = 12;                               // a code and a bucket that it is compared with
constexpr double sort_ns = 12, sort_byte_ns = 0.5;            // a code, brought into the order of one part

constexpr unsigned least_width = 6, most_width = 22;
constexpr std::size_t most_parts = 64;
constexpr std::size_t samples = std::size_t{1} << 15;  // pairs

// A generator of numbers that are the same on every machine.
struct Random {
    std::uint64_t state = 1;
    std::size_t below(std::size_t end) {
        state = state * 6364136223846793005 + 1442695040888963407;
        return static_cast<std::size_t>((state >> 32) * static_cast<std::uint64_t>(end) >> 32);
    }
};

// Returns the number of values of `width` bits that differ from one of them in at most t bits.
double values_within(unsigned width, unsigned t) {
    double sum = 0;
    for (unsigned distance = 0; distance <= std::min(t, width); ++distance) sum += multi::choose(width, distance);
    return sum;
}

// Parts of one width, spread evenly over the code.
std::vector<Part> cut(unsigned bits, unsigned width, unsigned radius) {
    const std::size_t count = std::min<std::size_t>({bits / width, radius + std::size_t{1}, most_parts});
    std::vector<Part> parts(count);
    for (std::size_t i = 0; i < count; ++i) parts[i] = {static_cast<unsigned>(i * bits / count), width, 0};
    return parts;
}

// Expected costs of comparing codes, in nanoseconds.
struct Costs {
    double pairs, a, b;  // all pairs; codes of either side
    double pair_ns, code_ns;
    bool self;

    // hits: share of all pairs that are within the radius.
    double scan(double hits) const { return pairs * (pair_ns + hits * hit_ns); }
    // share, hits: shares of all pairs that are within the threshold, and of these also within the radius.
    double part(unsigned width, unsigned threshold, double share, double hits) const {
        const double visits = values_within(width, threshold) * (self ? a / 2 : a);
        return code_ns * (self ? a : a + b) + visit_ns * visits + pairs * (pair_ns * share + hits * hit_ns);
    }
};

// Pairs of codes, drawn at random, and whether they are within the radius.
struct Sample {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    std::vector<bool> near;
    double share_near = 0;
};

Sample draw(const Distinct& a, const Distinct& b, unsigned radius) {
    Sample sample{std::vector<std::pair<std::size_t, std::size_t>>(samples), std::vector<bool>(samples)};
    Random random;
    std::size_t near = 0;
    for (std::size_t i = 0; i < samples; ++i) {
        auto& [first, second] = sample.pairs[i];
        first = random.below(a.size), second = random.below(b.size);
        while (&a == &b && first == second) second = random.below(b.size);
        std::uint16_t distance;
        active_kernels().distances(a.code(first), 1, a.bytes(), b.code(second), &distance);
        sample.near[i] = distance <= radius;
        near += sample.near[i];
    }
    sample.share_near = static_cast<double>(near) / samples;
    return sample;
}

// The cost of comparing the codes within threshold t of one part, for t = 0, 1, ..., width.
struct PartCost {
    std::vector<double> share, nanoseconds;
};

PartCost cost_of(const Part& part, const Distinct& a, const Distinct& b, const Sample& sample, const Costs& costs) {
    const multi::Field field(a.bits, part.offset, part.width);
    std::vector<std::size_t> within(part.width + 1), near(part.width + 1);
    for (std::size_t i = 0; i < samples; ++i) {
        const auto [first, second] = sample.pairs[i];
        const unsigned distance = multi::ones(field.of_code(a.code(first)) ^ field.of_code(b.code(second)));
        ++within[distance];
        near[distance] += sample.near[i];
    }
    PartCost cost;
    std::size_t sum = 0, hits = 0;
    for (unsigned t = 0; t <= part.width; ++t) {
        sum += within[t], hits += near[t];
        // At least what uniform codes would have: the sample is too small for rare events.
        const double uniform = std::ldexp(values_within(part.width, t), -static_cast<int>(part.width));
        cost.share.push_back(std::max(static_cast<double>(sum) / samples, uniform));
        cost.nanoseconds.push_back(costs.part(part.width, t, cost.share.back(), static_cast<double>(hits) / samples));
    }
    return cost;
}

}  // namespace

JoinPlan plan_join(const Distinct& a, const Distinct& b, unsigned radius) {
    const bool self = &a == &b;
    const auto na = static_cast<double>(a.size), nb = static_cast<double>(b.size);
    const auto bytes = static_cast<double>(a.bytes());
    const Costs costs{self ? na * (na - 1) / 2 : na * nb, na,  nb, compare_ns + compare_byte_ns * bytes,
                      sort_ns + sort_byte_ns * bytes,     self};
    JoinPlan best{{{0, 0, 0}}, costs.pairs, costs.scan(0)};
    if (best.nanoseconds < 1e6) return best;  // a millisecond: not worth a plan
    const Sample sample = draw(a, b, radius);
    best.nanoseconds = costs.scan(sample.share_near);
    for (unsigned width = least_width; width <= std::min(most_width, a.bits); ++width) {
        const std::vector<Part> parts = cut(a.bits, width, radius);
        std::vector<PartCost> part_costs;
        for (const Part& part : parts) part_costs.push_back(cost_of(part, a, b, sample, costs));
        const auto cost = [&](std::size_t p, int threshold) {
            if (threshold < 0) return 0.0;
            if (threshold > static_cast<int>(width)) return std::numeric_limits<double>::infinity();
            return part_costs[p].nanoseconds[static_cast<std::size_t>(threshold)];
        };
        // radius + 1 times, the threshold that costs least becomes larger by 1. Parts begin without one.
        std::vector<int> thresholds(parts.size(), -1);
        double nanoseconds = 0;
        for (unsigned step = 0; step <= radius && nanoseconds < best.nanoseconds; ++step) {
            std::size_t cheapest = 0;
            double least = std::numeric_limits<double>::infinity();
            for (std::size_t p = 0; p < parts.size(); ++p) {
                const double more = cost(p, thresholds[p] + 1) - cost(p, thresholds[p]);
                if (more < least) least = more, cheapest = p;
            }
            ++thresholds[cheapest];
            nanoseconds += least;
        }
        if (!(nanoseconds < best.nanoseconds)) continue;
        best = {{}, 0, nanoseconds};
        for (std::size_t p = 0; p < parts.size(); ++p) {
            if (thresholds[p] < 0) continue;
            best.parts.push_back({parts[p].offset, width, static_cast<unsigned>(thresholds[p])});
            best.compared += costs.pairs * part_costs[p].share[static_cast<std::size_t>(thresholds[p])];
        }
    }
    return best;
}

std::string JoinPlan::describe() const {
    char text[160];
    if (parts.size() == 1 && parts[0].width == 0) {
        std::snprintf(text, sizeof text, "scan: %.3g pairs of distinct codes compared", compared);
        return text;
    }
    unsigned least = parts[0].threshold, most = least;
    for (const Part& part : parts) least = std::min(least, part.threshold), most = std::max(most, part.threshold);
    std::snprintf(text, sizeof text,
                  "%zu parts of %u bits, thresholds %u to %u: about %.3g pairs of distinct codes compared",
                  parts.size(), parts[0].width, least, most, compared);
    return text;
}

}  // namespace idcwh::join_detail
