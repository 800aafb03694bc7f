// Ids that a caller gives to codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace idcwh {

// Error(invalid_argument) unless all are >= 0 and none is there twice.
void check_given_ids(const std::int64_t* ids, std::size_t count);

}  // namespace idcwh
