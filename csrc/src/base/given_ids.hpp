// Ids that a caller gives to codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace idcwh {

// Error(invalid_argument) unless all are >= 0, unique and new. taken: whether an id below next_id is in use; place:
// where, for the message.
void check_given_ids(const std::int64_t* ids, std::size_t count, std::uint64_t next_id,
                     const std::function<bool(std::int64_t)>& taken, const char* place);

}  // namespace idcwh
