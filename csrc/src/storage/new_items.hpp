// Checks of the caller's new items, before anything changes.
#pragma once

#include <idcwh/database.hpp>

#include <cstdint>
#include <functional>

namespace idcwh::storage {

// Throws Error(invalid_argument) for invalid codes, texts or ids. next_id is the first id that was never used.
// taken(id) returns true if a smaller id is in use.
void check_items(const NewItems& items, unsigned bits, std::uint64_t next_id,
                 const std::function<bool(std::int64_t)>& taken);

// Writes the ids of the items unless `assigned` is null. If the caller gave none, they start at `first`.
void put_assigned(const NewItems& items, std::uint64_t first, std::int64_t* assigned);

}  // namespace idcwh::storage
