// The table-driven CRC-32C, reachable for the tests on machines where the instruction would always be taken.
#pragma once

#include <cstddef>
#include <cstdint>

namespace idcwh::crc32c_parts {

std::uint32_t update_portable(std::uint32_t crc, const unsigned char* p, std::size_t size);

}  // namespace idcwh::crc32c_parts
