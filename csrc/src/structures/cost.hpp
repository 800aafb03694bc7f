// The cost of a scan, which every structure is compared with, and how much may be lost on the way to a cheaper answer.
// index/planner.cpp decides. A structure that turns out to be slower than expected stops within its budget.
//
// Nanoseconds on one Zen 3 core, rounded (benchmarks/search.py, csrc/bench/scan.cpp). Other processors differ, but
// mostly by the same factor for the scan and for the structures, and only ratios decide.
#pragma once

#include <idcwh/search.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>

#include "cpu/dispatch.hpp"
#include "cpu/kernels/kernels.hpp"

namespace idcwh::cost {

inline constexpr double call_ns = 500;           // of a search, whatever it reads
inline constexpr double read_byte_ns = 0.06;     // one query reads memory once: about 16 GB/s
inline constexpr double cached_byte_ns = 0.035;  // the same where the last-level cache holds them
inline constexpr std::size_t cached_bytes = 16 << 20;
inline constexpr double least_row_ns = 0.03;  // a row, however short
inline constexpr std::size_t batch = 8;       // queries from which the tile kernels are used

// All of nq queries over these codes, on one thread.
inline double scan_ns(const Codes& codes, std::size_t nq) {
    const auto bytes = static_cast<double>(code_bytes(codes.bits));
    const double read = codes.size * code_bytes(codes.bits) > cached_bytes ? read_byte_ns : cached_byte_ns;
    const double compared = active_kernels().byte_ns;
    const double row = std::max(least_row_ns, bytes * (nq < batch ? std::max(read, compared) : compared));
    return static_cast<double>(nq) * (call_ns + row * static_cast<double>(codes.size));
}

// Whether the rows that are searched may have others between them.
inline bool scattered(const Rows& rows) { return rows.kind != Rows::Kind::all && rows.kind != Rows::Kind::range; }

// One of nq queries over the `eligible` rows of these codes. scattered: they do not follow one another. Below a quarter
// of the rows a scan gathers such rows one by one, which costs about four times as much for each.
inline double scan_ns(const Codes& codes, std::size_t nq, std::size_t eligible, bool scattered) {
    if (nq == 0 || eligible == 0 || codes.size == 0) return call_ns;
    const double share = static_cast<double>(eligible) / static_cast<double>(codes.size);
    const double all = scan_ns(codes, nq) / static_cast<double>(nq) - call_ns;
    return call_ns + all * (scattered ? std::min(1.0, 4 * share) : share);
}

inline constexpr double add_ns = 1;                  // a distance or a row that is counted
inline constexpr double place_ns = 1.5;              // a row of a full ranking while the results fit the caches,
inline constexpr double place_far_ns = 5;            // and when they do not
inline constexpr std::size_t placed_near = 1 << 17;  // rows of such results

inline double ranking_ns(std::size_t rows) {
    return static_cast<double>(rows) * (rows <= placed_near ? place_ns : place_far_ns);
}

// The work that searches by a structure may lose, where they give up and are scanned in the end. Each search may spend
// a small share of its scan. A search that ended for less leaves the difference to later ones, up to one scan, and the
// first search begins with one: so searches that need, say, half a scan still pay. Any sequence of searches costs at
// most 1 + share times its scans, and two scans more. Shared by threads.
class Allowance {
public:
    // These costs may be off by three for the random reads of a structure beside a scan (benchmarks/skewed.py): a share
    // of 0.03 keeps the loss below a tenth of the time.
    static constexpr double share = 0.03;

    // What a search may spend before it gives up.
    double most(double scan) const { return share * scan + std::min(saved_.load(std::memory_order_relaxed), scan); }
    // A search has spent so much; complete: it needs no scan.
    void settle(double scan, double spent, bool complete) {
        const double gain = (1 + share) * scan - spent - (complete ? 0 : scan);
        double saved = saved_.load(std::memory_order_relaxed);
        while (!saved_.compare_exchange_weak(saved, std::clamp(saved + gain, 0.0, scan), std::memory_order_relaxed)) {
        }
    }

private:
    std::atomic<double> saved_{std::numeric_limits<double>::infinity()};  // one scan, of whatever size
};

}  // namespace idcwh::cost
