// Putting the ranked results of two parts of a database together, in the order (distance, id).
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace idcwh::detail {

// `length` results of each query, one query after the other.
struct Lists {
    std::vector<std::int32_t> distances;
    std::vector<std::int64_t> ids;
    std::size_t length = 0;
};

// The first k of both for each of nq queries; together they have at least k.
void merge(const Lists& a, const Lists& b, std::size_t nq, std::size_t k, std::int32_t* distances, std::int64_t* ids);

Hits merge(const Hits& a, const Hits& b);

// Drops what is farther than the k-th of each query.
void cut_behind_ties(Hits& hits, std::size_t k);

}  // namespace idcwh::detail
