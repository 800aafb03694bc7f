// CRC-32C by instruction and by tables, compared with the values of RFC 3720 (B.4) and with a bit-by-bit division.
#include <idcwh/crc32c.hpp>

#include <cstring>
#include <numeric>

#include "base/crc32c_combine.hpp"
#include "check.hpp"

namespace {

std::uint32_t bit_by_bit(const std::uint8_t* p, std::size_t size) {
    std::uint32_t crc = ~0u;
    for (; size; --size, ++p)
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (((crc ^ *p >> bit) & 1) ? 0x82f63b78u : 0u);
    return ~crc;
}

std::uint32_t by_tables(const void* data, std::size_t size) {
    return ~idcwh::crc32c_parts::update_portable(~0u, static_cast<const unsigned char*>(data), size);
}

TEST("crc32c of the vectors in RFC 3720 is their checksum") {
    std::vector<std::uint8_t> zeros(32), ones(32, 0xff), up(32);
    std::iota(up.begin(), up.end(), std::uint8_t{0});
    for (auto* function : {+[](const void* p, std::size_t n) { return idcwh::crc32c(p, n); }, &by_tables}) {
        CHECK(function("123456789", 9) == 0xE3069283u);
        CHECK(function(zeros.data(), 32) == 0x8A9136AAu);
        CHECK(function(ones.data(), 32) == 0x62A8AB43u);
        CHECK(function(up.data(), 32) == 0x46DD794Eu);
        CHECK(function("", 0) == 0);
    }
}

TEST("crc32c of any size and alignment, whole or in two parts, equals a division") {
    const auto data = check::random_bytes(60000, 1);
    for (std::size_t size : {0, 1, 7, 8, 9, 63, 64, 4095, 4096, 12287, 12288, 12289, 12300, 24576, 50001})
        for (std::size_t offset : {0, 1, 3, 8}) {
            const auto* p = data.data() + offset;
            const std::uint32_t expected = bit_by_bit(p, size);
            CHECK(idcwh::crc32c(p, size) == expected);
            CHECK(by_tables(p, size) == expected);
            const std::size_t half = size / 3;
            CHECK(idcwh::crc32c(p + half, size - half, idcwh::crc32c(p, half)) == expected);
        }
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
