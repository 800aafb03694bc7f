// Merges the entries that several chunks of rows yield for a query: a counting sort by distance, then by id.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "scan/k_best.hpp"

namespace idcwh {

// The entries of one query, one part per chunk. in_id_order means that ids ascend within a part and from part to part.
using Parts = std::vector<const std::vector<Entry>*>;

// Writes the first `take` entries by (distance, id).
void sort_entries(const Parts& parts, unsigned bits, bool in_id_order, std::size_t take, std::int32_t* distances,
                  std::int64_t* ids);

// Returns the number of entries that are at most as far from the query as the k-th.
std::size_t count_with_ties(const Parts& parts, unsigned bits, std::size_t k);

// Allocates the hits that `limits` counts. Throws std::bad_alloc for more than a 32-bit program can address.
void make_room(Hits& hits);

// Returns the first takes[q] entries of parts(q) for every query. threads: for the sorting.
Hits collect(const std::vector<std::size_t>& takes, const std::function<Parts(std::size_t)>& parts, unsigned bits,
             bool in_id_order, unsigned threads);

}  // namespace idcwh
