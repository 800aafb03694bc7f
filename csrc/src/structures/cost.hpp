// The cost of a scan, which every structure is compared with, and the budget of searches that may be slower than a
// scan. index/planner.cpp decides.
// Costs are nanoseconds on one Zen 3 core, rounded (benchmarks/search.py, csrc/bench/scan.cpp). Other processors differ
// mostly by one factor for the scan and the structures, and only ratios decide.
#pragma once

#include <idcwh/search.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>

#include "cpu/dispatch.hpp"
#include "cpu/kernels/kernels.hpp"

namespace idcwh::cost {

inline constexpr double call_ns = 500;           // per search, whatever it reads
inline constexpr double read_byte_ns = 0.06;     // one query reads memory at about 16 GB/s
inline constexpr double cached_byte_ns = 0.035;  // the same if the last-level cache holds the codes
inline constexpr std::size_t cached_bytes = 16 << 20;
inline constexpr double least_row_ns = 0.03;  // per row, however short
inline constexpr std::size_t batch = 8;       // queries from which the tile kernels are used

// Returns the cost of nq queries over these codes on one thread.
inline double scan_ns(const Codes& codes, std::size_t nq) {
    const auto bytes = static_cast<double>(code_bytes(codes.bits));
    const double read = codes.size * code_bytes(codes.bits) > cached_bytes ? read_byte_ns : cached_byte_ns;
    const double compared = active_kernels().byte_ns;
    const double row = std::max(least_row_ns, bytes * (nq < batch ? std::max(read, compared) : compared));
    return static_cast<double>(nq) * (call_ns + row * static_cast<double>(codes.size));
}

// Returns true if other rows may be between the selected ones.
inline bool scattered(const Rows& rows) { return rows.kind != Rows::Kind::all && rows.kind != Rows::Kind::range; }

// Returns the cost of one of nq queries over the `eligible` rows of these codes. scattered: other rows are between
// them. Below a quarter of the rows, a scan gathers scattered rows one by one, at about four times the cost per row.
// The queries of a batch share the gathered rows. The factor 1.2 is an estimate that no benchmark has measured.
inline double scan_ns(const Codes& codes, std::size_t nq, std::size_t eligible, bool scattered) {
    if (nq == 0 || eligible == 0 || codes.size == 0) return call_ns;
    const double share = static_cast<double>(eligible) / static_cast<double>(codes.size);
    const double all = scan_ns(codes, nq) / static_cast<double>(nq) - call_ns;
    return call_ns + all * (scattered ? std::min(1.0, (nq < batch ? 4 : 1.2) * share) : share);
}

inline constexpr double add_ns = 1;                  // per distance or row that is counted
inline constexpr double place_ns = 1.5;              // per row of a full ranking whose results fit the caches
inline constexpr double place_far_ns = 5;            // the same for larger results
inline constexpr std::size_t placed_near = 1 << 17;  // rows of the results that fit the caches

inline double ranking_ns(std::size_t rows) {
    return static_cast<double>(rows) * (rows <= placed_near ? place_ns : place_far_ns);
}

// The budget for searches that start with a structure, but then stop and scan. Threads share it.
// Each search adds a small share of the cost of its scan to the budget. The unspent budget is kept for later searches,
// up to the cost of one scan. The budget starts with one scan, so a structure that needs half a scan can still be used.
// Any sequence of searches costs at most 1 + share times its scans, plus two scans.
class Allowance {
public:
    // The costs of random reads may be wrong by a factor of three (benchmarks/skewed.py). A share of 0.03 keeps the
    // loss below a tenth of the time.
    static constexpr double share = 0.03;

    // Returns the budget of a search.
    double most(double scan) const { return share * scan + std::min(saved_.load(std::memory_order_relaxed), scan); }
    // Records the cost of a search. complete: it needed no scan.
    void settle(double scan, double spent, bool complete) {
        const double gain = (1 + share) * scan - spent - (complete ? 0 : scan);
        double saved = saved_.load(std::memory_order_relaxed);
        while (!saved_.compare_exchange_weak(saved, std::clamp(saved + gain, 0.0, scan), std::memory_order_relaxed)) {
        }
    }

private:
    std::atomic<double> saved_{std::numeric_limits<double>::infinity()};  // at most one scan, of any size
};

}  // namespace idcwh::cost
