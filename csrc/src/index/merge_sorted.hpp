// Putting the ranked results of the parts of a database together, in the order (distance, id).
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace idcwh::detail {

// `length` results of each query, one query after the other.
struct Lists {
    std::vector<std::int32_t> distances;
    std::vector<std::int64_t> ids;
    std::size_t length = 0;
};

// The first k of all parts for each of nq queries; together they have at least k. Of the options, these take the
// threads and the interrupt.
void merge(std::span<const Lists> parts, std::size_t nq, std::size_t k, std::int32_t* distances, std::int64_t* ids,
           const SearchOptions& options);

// Of at least one part.
Hits merge(std::span<const Hits> parts, const SearchOptions& options);

// Drops what is farther than the k-th of each query.
void cut_behind_ties(Hits& hits, std::size_t k);

}  // namespace idcwh::detail
