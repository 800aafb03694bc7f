// The first k of the Hamming ranking by counting sort.
#pragma once

#include <idcwh/search.hpp>

#include <vector>

#include "scan/rows.hpp"

namespace idcwh {

// Writes the first k of the ranking. The arguments are those of topk(), already checked; 1 <= k <= rows.count. The time
// depends on k only through the size of the output.
void rank_by_counting(const Codes& codes, const RowSet& rows, const std::uint8_t* queries, std::size_t nq,
                      std::size_t k, std::int32_t* distances, std::int64_t* ids, const SearchOptions& options);

// Returns the first takes[q] of the ranking of each query.
Hits rank_hits(const Codes& codes, const RowSet& rows, const std::uint8_t* queries,
               const std::vector<std::size_t>& takes, const SearchOptions& options);

}  // namespace idcwh
