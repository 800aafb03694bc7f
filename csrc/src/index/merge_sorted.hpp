// Merges the ranked results of the parts of a database in the order (distance, id).
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace idcwh::detail {

// Ranked lists of `length` results, one list per query.
struct Lists {
    std::vector<std::int32_t> distances;
    std::vector<std::int64_t> ids;
    std::size_t length = 0;
};

// Writes the first k of all parts for each of nq queries. The parts together have at least k. Only threads and
// interrupt of the options are used.
void merge(std::span<const Lists> parts, std::size_t nq, std::size_t k, std::int32_t* distances, std::int64_t* ids,
           const SearchOptions& options);

// Merges the hits of at least one part.
Hits merge(std::span<const Hits> parts, const SearchOptions& options);

// Drops the hits of each query that are farther than its k-th.
void cut_behind_ties(Hits& hits, std::size_t k);

}  // namespace idcwh::detail
