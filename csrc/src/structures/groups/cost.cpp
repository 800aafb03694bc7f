// The expected cost of a search over groups.
#include <algorithm>

#include "structures/cost.hpp"
#include "structures/groups/search.hpp"

namespace idcwh {
namespace {

// Measured by csrc/bench/groups.cpp on Zen 3.
constexpr double expand_ns = 25;    // per result row: read from its group, sorted and written
constexpr double look_up_ns = 500;  // one query of a direct table, which mostly reads few shells
constexpr double select_ns = 4;     // per eligible row, counted and listed by group, and per group of a call

double number(std::size_t value) { return static_cast<double>(value); }

}  // namespace

// Returns the cost of finding the groups of a query.
double GroupSearch::finder_ns(const Request& request) const {
    if (finder_ == Finder::table) return look_up_ns;
    if (finder_ == Finder::scan) return cost::scan_ns(groups_.codes(), request.nq) / number(request.nq);
    if (request.work == Work::radius || request.work == Work::count)
        return groups_.multi()->expected_ns_radius(
            static_cast<unsigned>(std::min<std::size_t>(request.wanted, groups_.codes().bits)));
    // the groups that hold the wanted rows
    const std::size_t visited = request.wanted * (groups_.size() / request.eligible);
    return groups_.multi()->expected_ns_topk(1 + visited * groups_.distinct() / groups_.size(), groups_.distinct());
}

double GroupSearch::expected_ns(const Request& request) const {
    if (request.nq == 0 || request.eligible == 0) return 0;
    const std::size_t size = groups_.size(), distinct = groups_.distinct();
    const std::size_t passed = groups_.ordered() ? request.eligible : size;
    const double filter = request.eligible < size ? select_ns * number(passed + distinct) / number(request.nq) : 0;
    const double measured = cost::scan_ns(groups_.codes(), 1) + cost::add_ns * number(distinct);
    const double ranking = measured + cost::ranking_ns(size);
    switch (request.work) {
        case Work::topk:
        case Work::ties:
            return filter + std::min(ranking, finder_ns(request) +
                                                  expand_ns * number(std::min(request.wanted, request.eligible)));
        case Work::radius:
        case Work::count: return filter + finder_ns(request);
        case Work::histogram: return filter + measured;
        case Work::rank: return filter + ranking;
    }
    return infinite;
}

}  // namespace idcwh
