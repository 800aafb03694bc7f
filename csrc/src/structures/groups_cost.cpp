// What a search over groups is expected to cost, for the choice between it and a scan of all rows.
#include <algorithm>

#include "cost.hpp"
#include "groups.hpp"

namespace idcwh {
namespace {

// Measured on Zen 3.
constexpr double expand_ns = 25;         // a row that is found: read from its group, sorted, written
constexpr double look_up_ns = 500;       // of a direct table, until the k nearest are there: few shells, mostly
constexpr double add_ns = 1;             // a distance or a row that is counted
constexpr double place_ns = 1.5;         // a row of a full ranking while the results fit the caches,
constexpr double place_far_ns = 5;       // and when they do not
constexpr std::size_t cached = 1 << 17;  // rows of such results

double number(std::size_t value) { return static_cast<double>(value); }
double place(std::size_t rows) { return number(rows) * (rows <= cached ? place_ns : place_far_ns); }

// One query of nq, all eligible rows, no groups.
double plain_ns(Work work, const Codes& codes, std::size_t nq) {
    switch (work) {
        case Work::topk:
        case Work::ties:
        case Work::radius:
        case Work::count: return cost::scan_ns(codes, nq) / number(nq);
        case Work::histogram: return cost::scan_ns(codes, 1) + add_ns * number(codes.size);
        case Work::rank: return cost::scan_ns(codes, 1) + add_ns * number(codes.size) + place(codes.size);
    }
    return 0;
}

}  // namespace

double Groups::near_ns(Work work, std::size_t wanted, std::size_t nq) const {
    const double scan = cost::scan_ns(codes(), nq) / number(nq);
    if (table_) return std::min(scan, look_up_ns);
    if (!multi_) return scan;
    if (work == Work::radius || work == Work::count)
        return std::min(scan, multi_->expected_ns_radius(static_cast<unsigned>(std::min<std::size_t>(wanted, bits_))));
    // As many groups as hold the rows that are wanted.
    return std::min(scan, multi_->expected_ns_topk(1 + wanted * distinct() / size_));
}

double Groups::expected_ns(Work work, std::size_t wanted, std::size_t nq, std::size_t eligible) const {
    if (nq == 0 || eligible == 0) return 0;
    const std::size_t passed = ordered() ? eligible : size_;  // once a call, to count the eligible rows of each group
    const double filter = eligible < size_ ? add_ns * number(passed) / number(nq) : 0;
    const double ranking = cost::scan_ns(codes(), 1) + add_ns * number(distinct()) + place(size_);
    switch (work) {
        case Work::topk:
        case Work::ties:
            return filter + std::min(ranking, near_ns(work, wanted * (size_ / eligible), nq) +
                                                  expand_ns * number(std::min(wanted, eligible)));
        case Work::radius:
        case Work::count: return filter + near_ns(work, wanted, nq);
        case Work::histogram: return filter + cost::scan_ns(codes(), 1) + add_ns * number(distinct());
        case Work::rank: return filter + ranking;
    }
    return 0;
}

bool Groups::pays(Work work, std::size_t wanted, std::size_t nq, std::size_t eligible) const {
    return eligible == size_ ||
           expected_ns(work, wanted, nq, eligible) <= plain_ns(work, {codes_.data(), eligible, bits_}, nq);
}

}  // namespace idcwh
