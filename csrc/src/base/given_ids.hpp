// The check of ids that a caller gives to new codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace idcwh {

// Throws Error(invalid_argument) unless all ids are >= 0, unique and new. taken(id) returns true if an id below next_id
// is in use. place: "index" or "database", for the message.
void check_given_ids(const std::int64_t* ids, std::size_t count, std::uint64_t next_id,
                     const std::function<bool(std::int64_t)>& taken, const char* place);

}  // namespace idcwh
