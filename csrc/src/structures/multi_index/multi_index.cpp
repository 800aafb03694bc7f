// See multi_index.hpp. The cost of a search is measured on a sample of the codes, when the tables have been built.
#include "structures/multi_index/multi_index.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/pool.hpp"
#include "scan/k_best.hpp"
#include "scan/plan.hpp"
#include "structures/cost.hpp"
#include "structures/multi_index/shells.hpp"

namespace idcwh {
namespace {

constexpr std::size_t least_size = 65536;
constexpr unsigned least_bits = 8;
constexpr std::size_t samples = 16;
constexpr double patience_share = 0.6;  // share of a scan, spent by a sampled query before it may give up

}  // namespace

std::unique_ptr<MultiIndex> MultiIndex::build(const Codes& codes, std::size_t memory, unsigned threads,
                                              const Interrupt* interrupt) {
    check(codes, nullptr, 0, {});
    if (codes.size < least_size || std::uint64_t{codes.size} >> 32 || codes.bits < least_bits) return nullptr;
    const auto substrings = multi::cut(codes.bits, codes.size, memory);
    if (substrings.empty()) return nullptr;
    auto index = std::make_unique<MultiIndex>();
    index->tables_ = multi::build_tables(codes, substrings, threads ? threads : pool::available_threads(), interrupt);
    index->sample(codes);
    return index;
}

std::size_t MultiIndex::memory() const {
    std::size_t bytes = 0;
    for (const auto& table : tables_.table) bytes += table.begins.bytes() + table.entries.bytes() + table.rows.bytes();
    return bytes;
}

bool MultiIndex::run(const Codes& codes, const std::uint8_t* query, multi::Receiver& receiver, double scan_ns,
                     double patience_ns) const {
    const bool unlimited = std::isinf(scan_ns);
    double spent = 0;
    const bool complete = multi::search(tables_, codes, query, receiver,
                                        {scan_ns, unlimited ? scan_ns : allowance_.most(scan_ns), patience_ns}, spent);
    if (!unlimited) allowance_.settle(scan_ns, spent, complete);
    return complete;
}

// Searches for some of the codes and adds up the cost of each step.
void MultiIndex::sample(const Codes& codes) {
    const double scan = cost::scan_ns(codes, 1);
    struct TopkSink {
        KBest nearest;
        std::int32_t limit() const { return nearest.limit(); }
        std::int32_t limit_from(std::size_t row) const { return nearest.limit_from(static_cast<std::int64_t>(row)); }
        void take(std::size_t row, std::int32_t distance) { nearest.add(static_cast<std::int64_t>(row), distance); }
    };
    struct RadiusSink {
        std::int32_t radius;
        std::int32_t limit() const { return radius; }
        void take(std::size_t, std::int32_t) {}
    };
    // Returns the mean cost of a query. A query that stops early also costs a scan.
    const auto mean = [&](auto sink_of, double patience) {
        double sum = 0;
        for (std::size_t i = 0; i < samples; ++i) {
            const std::size_t row = (2 * i + 1) * codes.size / (2 * samples);
            auto sink = sink_of();
            multi::SinkReceiver<decltype(sink)> receiver(sink);
            double spent = 0;
            const bool complete = multi::search(tables_, codes, codes.data + row * code_bytes(codes.bits), receiver,
                                                {scan, scan, patience}, spent);
            sum += spent + (complete ? 0 : scan);
        }
        return sum / samples;
    };
    for (std::size_t k = 1; k <= codes.size / 100; k *= 10) {
        topk_ns_.push_back(mean([&] { return TopkSink{KBest(k, codes.bits)}; }, patience_share * scan));
        if (topk_ns_.back() >= scan) break;
    }
    for (int radius = 0; radius <= static_cast<int>(codes.bits); ++radius) {
        radius_ns_.push_back(mean([&] { return RadiusSink{radius}; }, 0));
        if (radius_ns_.back() >= scan) break;
    }
}

double MultiIndex::expected_ns_topk(std::size_t k, std::size_t eligible) const {
    // A filter keeps only a share of the candidates, so more of them have to be visited.
    if (eligible < size())
        k = static_cast<std::size_t>(static_cast<double>(k) * static_cast<double>(size()) /
                                     static_cast<double>(std::max<std::size_t>(eligible, 1)));
    const double at = std::log10(static_cast<double>(std::max<std::size_t>(k, 1)));
    const auto below = static_cast<std::size_t>(at);
    const double share = at - static_cast<double>(below);
    const double low = below < topk_ns_.size() ? topk_ns_[below] : unsampled_ns();
    const double high = below + 1 < topk_ns_.size() ? topk_ns_[below + 1] : std::max(low, unsampled_ns());
    return low * (1 - share) + high * share;
}

double MultiIndex::expected_ns_radius(unsigned radius) const {
    return radius < radius_ns_.size() ? radius_ns_[radius] : std::max(radius_ns_.back(), unsampled_ns());
}

// The cost of a search that the sample has left out, because it costs at least as much as a scan.
double MultiIndex::unsampled_ns() const { return 2 * cost::scan_ns({nullptr, tables_.size, tables_.bits}, 1); }

std::string MultiIndex::describe() const {
    const auto& primary = tables_.table[0];
    std::string text = "substrings of ";
    for (const auto& table : tables_.table) {
        if (&table != &primary) text += "+";
        text += std::to_string(table.substring.width);
    }
    const auto n = static_cast<double>(tables_.size);
    // The mean size of a code's bucket in the primary, and its expectation for uniform codes.
    double squares = 0;
    for (std::size_t b = 0; b + 1 < primary.begins.size(); ++b) {
        const double size = primary.begins[b + 1] - primary.begins[b];
        squares += size * size;
    }
    char numbers[160];
    std::snprintf(numbers, sizeof numbers,
                  " bits, %.1f bytes per code, %.1f codes in a code's bucket (%.1f if uniform)",
                  static_cast<double>(memory()) / n, squares / n,
                  1 + std::ldexp(n - 1, -static_cast<int>(primary.substring.width)));
    return text + numbers;
}

}  // namespace idcwh
