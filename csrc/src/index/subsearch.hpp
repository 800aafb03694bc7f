// Splits the search of a view into searches of parts of its segments, each by one searcher.
#pragma once

#include <idcwh/index.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/planner.hpp"

namespace idcwh::detail {

// Writes the results of a searcher for the batch. A scan answers the queries that it leaves unfinished.
void run_topk(const Searcher& searcher, const Batch& batch, std::size_t k, std::int32_t* distances, std::int64_t* ids);
Hits run_radius(const Searcher& searcher, const Batch& batch, unsigned radius);
void run_count(const Searcher& searcher, const Batch& batch, unsigned radius, std::int64_t* counts);

// Some rows of a segment, with at least one eligible. They may point into the filtered rows they were made from.
struct SubSearch {
    const Searcher* searcher;
    Batch batch;
    const Segment* segment;
    std::size_t first = 0;  // row of the segment that is the first of the batch

    // Turns the rows that were found into ids.
    void to_ids(std::int64_t* found, std::size_t count) const {
        if (!batch.options.ids) segment->to_ids(found, count, first);
    }
};

// Returns the sub-searches for nq >= 1 queries. threads: used if the options set none.
std::vector<SubSearch> subsearches(FilteredView& filtered, const SearchRequest& request, const std::uint8_t* queries,
                                   const QueryOptions& options, unsigned threads);

}  // namespace idcwh::detail
