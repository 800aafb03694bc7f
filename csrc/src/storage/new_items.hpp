// Items as the caller hands them over, checked before anything is done.
#pragma once

#include <idcwh/database.hpp>

#include <cstdint>

namespace idcwh::storage {

// Error(invalid_argument) for codes, texts or ids that cannot be. next_id: the first that was never used.
void check_items(const NewItems& items, unsigned bits, std::uint64_t next_id);

// The ids that they have now, where the caller wants to know; those not given go on from first.
void put_assigned(const NewItems& items, std::uint64_t first, std::int64_t* assigned);

}  // namespace idcwh::storage
