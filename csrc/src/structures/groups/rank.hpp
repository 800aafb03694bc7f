// The first k of the Hamming ranking, by the distances of the distinct codes.
#pragma once

#include <idcwh/search.hpp>

#include "base/interrupt.hpp"
#include "structures/groups/filter.hpp"
#include "structures/searcher.hpp"

namespace idcwh {

// Writes the first k of the ranking of each query. Except for the writing, the cost does not depend on k. 1.0 to 2.0
// times as fast as the ranking by a scan, faster if queries are equal (csrc/bench/groups.cpp).
void rank_groups(const GroupFilter& selected, const Batch& batch, std::size_t k, std::int32_t* distances,
                 std::int64_t* ids, Stop& stop);

}  // namespace idcwh
