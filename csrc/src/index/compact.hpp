// Copies of an index without its dead rows.
#pragma once

#include "index/version.hpp"

namespace idcwh::detail {

// Returns true if enough rows are dead that a copy is worth its cost, which is then O(1) per removal.
bool wants_compaction(const Contents& contents);

// Returns the same codes and ids in the same order, without dead rows and structures, in memory of their own.
Contents compacted(const Contents& contents);

}  // namespace idcwh::detail
