// One query over the tables of codes of more than 64 bits.
//
// The substrings form a ring. Let a search visit c_i shells of table i, with sum(c_i) > r. A code at distance r of the
// query is at distance d_i in substring i, and sum(d_i - c_i) < 0. So there is an i from which on all partial sums
// along the ring are negative: d_i < c_i, so that a shell contains the code, and d_i + d_next < c_i + c_next. An entry
// of table i is the next substring of its code, and decides the second condition. It rejects nearly all entries, and
// the few other codes are read in the caller's memory. Qin, Xiao: Pigeonring: a principle for faster thresholded
// similarity search, 2018.
#pragma once

#include <idcwh/search.hpp>

#include <cstdint>

#include "structures/multi_index/budget.hpp"
#include "structures/multi_index/search.hpp"
#include "structures/multi_index/table.hpp"

namespace idcwh::multi {

// As search().
bool search_ring(const Tables& tables, const Codes& codes, const std::uint8_t* query, Receiver& receiver,
                 const CostLimits& limits, double& spent_ns);

}  // namespace idcwh::multi
