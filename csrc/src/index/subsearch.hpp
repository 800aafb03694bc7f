// A search of a view as searches of its segments, each by one searcher, one after the other.
#pragma once

#include <idcwh/index.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/planner.hpp"

namespace idcwh::detail {

// A searcher's results for the batch; the queries that it left unfinished are scanned.
void run_topk(const Searcher& searcher, const Batch& batch, std::size_t k, std::int32_t* distances, std::int64_t* ids);
Hits run_radius(const Searcher& searcher, const Batch& batch, unsigned radius);
void run_count(const Searcher& searcher, const Batch& batch, unsigned radius, std::int64_t* counts);

// Some rows of a segment, at least one of them eligible. They may point into the filtered rows that they were made
// from.
struct SubSearch {
    const Searcher* searcher;
    Batch batch;
    const Segment* segment;
    std::size_t first = 0;  // the row of the segment that is the first one of the batch

    // Turns what was found into ids.
    void to_ids(std::int64_t* found, std::size_t count) const {
        if (!batch.options.ids) segment->to_ids(found, count, first);
    }
};

// The sub-searches of the request for nq >= 1 queries. threads: for options that do not say.
std::vector<SubSearch> subsearches(FilteredView& filtered, const SearchRequest& request, const std::uint8_t* queries,
                                   const QueryOptions& options, unsigned threads);

}  // namespace idcwh::detail
