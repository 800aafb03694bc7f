// The first k of the Hamming ranking by counting sort.
#pragma once

#include <idcwh/search.hpp>

#include <vector>

#include "scan/rows.hpp"

namespace idcwh {

// Arguments as of topk, checked already; 1 <= k <= rows.count. Costs the same for every k but for what is written.
void rank_by_counting(const Codes& codes, const RowSet& rows, const std::uint8_t* queries, std::size_t nq,
                      std::size_t k, std::int32_t* distances, std::int64_t* ids, const SearchOptions& options);

// The first takes[q] of the ranking of each query.
Hits rank_hits(const Codes& codes, const RowSet& rows, const std::uint8_t* queries,
               const std::vector<std::size_t>& takes, const SearchOptions& options);

}  // namespace idcwh
