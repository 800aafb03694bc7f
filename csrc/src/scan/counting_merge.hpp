// Puts what was found in successive ranges of rows in order: counting sort by distance, then by id.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "scan/k_best.hpp"

namespace idcwh {

// What the parts of one query found. Within a part, and from part to part, ids ascend if in_id_order says so.
using Parts = std::vector<const std::vector<Entry>*>;

// Writes the first `take` of all entries.
void sort_entries(const Parts& parts, unsigned bits, bool in_id_order, std::size_t take, std::int32_t* distances,
                  std::int64_t* ids);

// How many entries are as near as the k-th.
std::size_t count_with_ties(const Parts& parts, unsigned bits, std::size_t k);

// Makes room for the hits that limits count. std::bad_alloc: more than a 32-bit program can address.
void make_room(Hits& hits);

// Hits of nq queries: takes[q] of parts(q) each. threads: for the sorting.
Hits collect(const std::vector<std::size_t>& takes, const std::function<Parts(std::size_t)>& parts, unsigned bits,
             bool in_id_order, unsigned threads);

}  // namespace idcwh
