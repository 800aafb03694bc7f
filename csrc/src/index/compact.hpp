// Leaving dead rows behind.
#pragma once

#include "index/version.hpp"

namespace idcwh::detail {

// Whether so many rows are dead that a copy without them pays: the copy then costs each removal O(1).
bool wants_compaction(const Contents& contents);

// The same codes and ids in the same order, with no dead rows, no structures and memory of its own.
Contents compacted(const Contents& contents);

}  // namespace idcwh::detail
