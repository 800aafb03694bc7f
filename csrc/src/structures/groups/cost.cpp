// What a search over groups is expected to cost, for the choice between it and a scan of all rows.
#include <algorithm>

#include "structures/cost.hpp"
#include "structures/groups/groups.hpp"

namespace idcwh {
namespace {

// Measured on Zen 3.
constexpr double expand_ns = 25;    // a row that is found: read from its group, sorted, written
constexpr double look_up_ns = 500;  // of a direct table, until the k nearest are there: few shells, mostly
constexpr double select_ns = 4;     // an eligible row, counted and listed by group; and a group, once a call

double number(std::size_t value) { return static_cast<double>(value); }

}  // namespace

double Groups::near_ns(Work work, std::size_t wanted, std::size_t nq) const {
    const double scan = cost::scan_ns(codes(), nq) / number(nq);
    if (table_) return std::min(scan, look_up_ns);
    if (!multi_) return scan;
    if (work == Work::radius || work == Work::count)
        return std::min(scan, multi_->expected_ns_radius(static_cast<unsigned>(std::min<std::size_t>(wanted, bits_))));
    // As many groups as hold the rows that are wanted.
    return std::min(scan, multi_->expected_ns_topk(1 + wanted * distinct() / size_, distinct()));
}

double Groups::expected_ns(Work work, std::size_t wanted, std::size_t nq, std::size_t eligible) const {
    if (nq == 0 || eligible == 0) return 0;
    const std::size_t passed = ordered() ? eligible : size_;
    const double filter = eligible < size_ ? select_ns * number(passed + distinct()) / number(nq) : 0;
    const double ranking = cost::scan_ns(codes(), 1) + cost::add_ns * number(distinct()) + cost::ranking_ns(size_);
    switch (work) {
        case Work::topk:
        case Work::ties:
            return filter + std::min(ranking, near_ns(work, wanted * (size_ / eligible), nq) +
                                                  expand_ns * number(std::min(wanted, eligible)));
        case Work::radius:
        case Work::count: return filter + near_ns(work, wanted, nq);
        case Work::histogram: return filter + cost::scan_ns(codes(), 1) + cost::add_ns * number(distinct());
        case Work::rank: return filter + ranking;
    }
    return 0;
}

}  // namespace idcwh
