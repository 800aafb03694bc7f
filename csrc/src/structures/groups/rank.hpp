// The first k of the Hamming ranking, by the distances of the distinct codes.
#pragma once

#include <idcwh/search.hpp>

#include "structures/groups/selected.hpp"

namespace idcwh {

// Arguments as of topk, checked already; 1 <= k <= the number of selected rows. Costs the same for every k but for what
// is written.
void rank_groups(const Selected& selected, const Codes& codes, const std::uint8_t* queries, std::size_t nq,
                 std::size_t k, std::int32_t* distances, std::int64_t* ids, const SearchOptions& options, Stop& stop);

}  // namespace idcwh
