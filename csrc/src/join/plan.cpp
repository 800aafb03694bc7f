// See plan.hpp.
#include "join/plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "cpu/dispatch.hpp"
#include "cpu/kernels/kernels.hpp"
#include "structures/multi_index/bits.hpp"

namespace idcwh::join_detail {
namespace {

// Nanoseconds on Zen 5 with AVX-512 VPOPCNTDQ (benchmarks/join.py).
constexpr double compare_ns = 0.03, compare_byte_ns = 0.005;  // a pair that is compared
constexpr double hit_ns = 40;                                 // one that is within the radius
constexpr double visit_ns = 12;                               // a code and a bucket that it is compared with
constexpr double bucket_ns = 2;                               // a bucket and one near it
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
        const double near = values_within(width, threshold),
                     buckets = std::min(a, std::ldexp(1.0, static_cast<int>(width)));
        return code_ns * (self ? a : a + b) + near * (visit_ns * (self ? a / 2 : b) + bucket_ns * buckets) +
               pairs * (pair_ns * share + hits * hit_ns);
    }
};

// Pairs of codes, drawn at random, and whether they are within the radius.
struct Sample {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    std::vector<bool> near;
    double share_near = 0;
};

Sample draw(const Codes& a, const Codes& b, bool same, unsigned radius) {
    const std::size_t bytes = code_bytes(a.bits);
    Sample sample{std::vector<std::pair<std::size_t, std::size_t>>(samples), std::vector<bool>(samples)};
    Random random;
    std::size_t near = 0;
    for (std::size_t i = 0; i < samples; ++i) {
        auto& [first, second] = sample.pairs[i];
        first = random.below(a.size), second = random.below(b.size);
        while (same && first == second) second = random.below(b.size);
        std::uint16_t distance;
        active_kernels().distances(a.data + first * bytes, 1, bytes, b.data + second * bytes, &distance);
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

PartCost cost_of(const Part& part, const Codes& a, const Codes& b, const Sample& sample, const Costs& costs) {
    const multi::Field field(a.bits, part.offset, part.width);
    const std::size_t bytes = code_bytes(a.bits);
    std::vector<std::size_t> within(part.width + 1), near(part.width + 1);
    for (std::size_t i = 0; i < sample.pairs.size(); ++i) {
        const auto [first, second] = sample.pairs[i];
        const unsigned distance =
            multi::ones(field.of_code(a.data + first * bytes) ^ field.of_code(b.data + second * bytes));
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

// The cheapest thresholds of parts of one width; -1: none. Infinite cost if `enough` is exceeded.
struct Thresholds {
    std::vector<int> of_part;
    double nanoseconds = 0;
};

Thresholds thresholds_of(const std::vector<PartCost>& costs, unsigned radius, double enough) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    Thresholds thresholds{std::vector<int>(costs.size(), -1)};
    const auto cost = [&](std::size_t p, int threshold) {
        if (threshold < 0) return 0.0;
        const auto at = static_cast<std::size_t>(threshold);
        return at < costs[p].nanoseconds.size() ? costs[p].nanoseconds[at] : infinite;
    };
    // radius + 1 times, the threshold that costs least becomes larger by 1.
    for (unsigned step = 0; step <= radius; ++step) {
        std::size_t cheapest = 0;
        double least = infinite;
        for (std::size_t p = 0; p < costs.size(); ++p) {
            const double more = cost(p, thresholds.of_part[p] + 1) - cost(p, thresholds.of_part[p]);
            if (more < least) least = more, cheapest = p;
        }
        ++thresholds.of_part[cheapest];
        thresholds.nanoseconds += least;
        if (!(thresholds.nanoseconds < enough)) return {{}, infinite};
    }
    return thresholds;
}

// same: pairs of a code with itself are not among those that are drawn.
JoinPlan plan(const Codes& a, const Codes& b, double na, double nb, bool self, bool same, bool sampled,
              unsigned radius) {
    const auto bytes = static_cast<double>(code_bytes(a.bits));
    const Costs costs{self ? na * (na - 1) / 2 : na * nb, na,  nb, compare_ns + compare_byte_ns * bytes,
                      sort_ns + sort_byte_ns * bytes,     self};
    JoinPlan best{{{0, 0, 0}}, costs.pairs, costs.scan(0)};
    if (best.nanoseconds < 1e6) return best;  // a millisecond: not worth a plan
    const auto part_costs = [&](const std::vector<Part>& parts, const Sample& sample) {
        std::vector<PartCost> list;
        for (const Part& part : parts) list.push_back(cost_of(part, a, b, sample, costs));
        return list;
    };
    // Uniform codes cost least. The widths that are cheapest for them come first, since the sample takes longer.
    std::vector<std::pair<double, unsigned>> widths;
    for (unsigned width = least_width; width <= std::min(most_width, a.bits); ++width) {
        const auto uniform = part_costs(cut(a.bits, width, radius), {});
        const double nanoseconds = thresholds_of(uniform, radius, best.nanoseconds).nanoseconds;
        if (nanoseconds < best.nanoseconds) widths.emplace_back(nanoseconds, width);
    }
    std::sort(widths.begin(), widths.end());
    const Sample sample = sampled ? draw(a, b, same, radius) : Sample{};
    best.nanoseconds = costs.scan(sample.share_near);
    for (const auto& [least, width] : widths) {
        if (least >= best.nanoseconds) break;
        const std::vector<Part> parts = cut(a.bits, width, radius);
        const auto list = part_costs(parts, sample);
        const Thresholds thresholds = thresholds_of(list, radius, best.nanoseconds);
        if (!(thresholds.nanoseconds < best.nanoseconds)) continue;
        best = {{}, 0, thresholds.nanoseconds};
        for (std::size_t p = 0; p < parts.size(); ++p) {
            if (thresholds.of_part[p] < 0) continue;
            const auto threshold = static_cast<unsigned>(thresholds.of_part[p]);
            best.parts.push_back({parts[p].offset, width, threshold});
            best.compared += costs.pairs * list[p].share[threshold];
        }
    }
    return best;
}

}  // namespace

JoinPlan plan_join(const Codes& a, const Codes& b, bool self, unsigned radius) {
    return plan(a, b, static_cast<double>(a.size), static_cast<double>(b.size), self, self, true, radius);
}

JoinPlan plan_join(const Codes& codes, std::size_t na, std::size_t nb, unsigned radius, bool without_sample) {
    const auto [fewer, more] = std::minmax(na, nb);
    return plan(codes, codes, static_cast<double>(more), static_cast<double>(fewer), false, true, !without_sample,
                radius);
}

double compare_all_ns(double pairs, unsigned bits) {
    return pairs * (compare_ns + compare_byte_ns * static_cast<double>(code_bytes(bits)));
}

std::string JoinPlan::describe() const {
    char text[160];
    if (scans()) {
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
