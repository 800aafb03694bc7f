// The order in which a search of a ring of tables visits shells: the cheapest next shell first, as far as it is known
// beforehand. The first r + 1 shells contain all codes within r, so a smaller limit only shortens the search.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "structures/multi_index/table.hpp"

namespace idcwh::multi {

class Visits {
public:
    struct Visit {
        std::uint32_t table;
        std::int32_t radius;
        double ns;  // estimated
    };

    Visits(const Tables& tables, const std::vector<std::uint32_t>& values);

    // Returns false if the shells before this one already contain all codes.
    bool has(std::size_t visit) { return plan(visit + 1); }
    const Visit& operator[](std::size_t visit) const { return visits_[visit]; }

    // Returns the largest distance in the next substring of a code that this visit has to find, among the codes within
    // `limit`.
    std::int32_t entry_limit(const Visit& visit, std::int32_t limit);

    // Returns the cost of all visits within `limit` from this one on, of which a share has been made, or a partial sum
    // above `enough`.
    double rest_ns(std::size_t visit, double made, std::int32_t limit, double enough);

    // Returns the number of buckets that have been counted since the last call.
    std::size_t take_counted() { return std::exchange(counted_, 0); }

private:
    struct Next {  // the next shell of a table
        std::int32_t radius = 0;
        double buckets = 1, entries = 0, ns = 0;
    };

    bool plan(std::size_t count);
    void advance(std::size_t t);
    double counted_entries(std::size_t t);
    void estimate(Next& next) const;

    const Tables& tables_;
    const std::vector<std::uint32_t>& values_;
    std::vector<Visit> visits_;
    std::vector<Next> next_;
    bool all_ = false;  // the visits contain all codes
    std::size_t counted_ = 0;

    // The visits of each table within limited_.
    std::int32_t limited_ = -1;
    std::vector<std::int32_t> count_;
};

}  // namespace idcwh::multi
