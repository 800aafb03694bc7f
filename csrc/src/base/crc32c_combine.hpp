// The table-driven CRC-32C, declared for tests on machines that always use the instruction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace idcwh::crc32c_parts {

std::uint32_t update_portable(std::uint32_t crc, const unsigned char* p, std::size_t size);

}  // namespace idcwh::crc32c_parts
