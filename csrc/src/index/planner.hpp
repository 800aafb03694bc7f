// How a search of each segment runs. The one place that decides between the scan and the structures.
#pragma once

#include <idcwh/index.hpp>

#include <atomic>
#include <cstddef>
#include <vector>

#include "index/filtered_rows.hpp"
#include "structures/searcher.hpp"

namespace idcwh::detail {

// A searcher over the first `rows` rows of a segment; later rows are scanned.
struct Choice {
    const Searcher* searcher;
    std::size_t rows;
    double nanoseconds;  // expected for one query, with the scan of later rows
};

// A search of all eligible rows of a view.
struct SearchRequest {
    Work work;
    std::size_t nq;
    std::size_t wanted;  // k, or the radius
};

// The cheapest searcher for these rows of a segment.
Choice choose(const FilteredRows& filtered, const SearchRequest& request);

// For a person: what choose() makes of all segments, and the ways that it takes nowhere.
Explanation explain(const FilteredView& filtered, const SearchRequest& request);

// For tests: a search takes a structure whatever it is expected to cost.
extern std::atomic<bool> always_structures;

}  // namespace idcwh::detail
