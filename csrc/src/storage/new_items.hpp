// Items as the caller hands them over, checked before anything is done.
#pragma once

#include <idcwh/database.hpp>

#include <cstdint>
#include <functional>

namespace idcwh::storage {

// Error(invalid_argument) for invalid codes, texts or ids. next_id: the first that was never used; taken: whether a
// smaller one is in use.
void check_items(const NewItems& items, unsigned bits, std::uint64_t next_id,
                 const std::function<bool(std::int64_t)>& taken);

// The ids that they have now, where the caller wants to know; those not given go on from first.
void put_assigned(const NewItems& items, std::uint64_t first, std::int64_t* assigned);

}  // namespace idcwh::storage
