// The planner, the one place that decides between the scan, the structures and the join of each segment.
#pragma once

#include <idcwh/index.hpp>

#include <atomic>
#include <cstddef>
#include <vector>

#include "index/filtered_rows.hpp"
#include "structures/searcher.hpp"

namespace idcwh::detail {

// A searcher over the first `rows` rows of a segment. Later rows are scanned.
struct Choice {
    const Searcher* searcher;
    std::size_t rows;
    double nanoseconds;  // expected per query, including the scan of later rows
    bool structure;      // the searcher is one of the segment's structure
};

// A search of all eligible rows of a view.
struct SearchRequest {
    Work work;
    std::size_t nq;
    std::size_t wanted;  // k or the radius
};

// Returns the cheapest searcher for these rows of a segment.
Choice choose(const FilteredRows& filtered, const SearchRequest& request);

// Returns what choose() chooses for all segments, and the other paths.
Explanation explain(const FilteredView& filtered, const SearchRequest& request);

// Makes choose() prefer structures whatever they cost, for tests.
extern std::atomic<bool> always_structures;

}  // namespace idcwh::detail
