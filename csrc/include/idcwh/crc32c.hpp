// CRC-32C (Castagnoli, reflected, as in iSCSI, ext4 and RFC 3720), the checksum of codes.bin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "export.hpp"

namespace idcwh {

// Returns the checksum of `size` bytes. The result of an earlier call as `seed` continues that checksum.
// Example: crc32c("123456789", 9) == 0xE3069283.
IDCWH_API std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t seed = 0);

}  // namespace idcwh
