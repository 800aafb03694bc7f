// CRC-32C by the SSE4.2 instruction, on three streams at a time for long inputs, or by eight tables ("slicing by 8").
#include <idcwh/crc32c.hpp>

#include <array>
#include <cstring>

#include "base/crc32c_combine.hpp"
#include "cpu/cpu.hpp"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace idcwh {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // Castagnoli's, bits reversed

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// Returns tables[k][b], the checksum of byte b followed by k zero bytes.
constexpr Tables make_tables() {
    Tables tables{};
    for (std::uint32_t b = 0; b < 256; ++b) {
        std::uint32_t crc = b;
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        tables[0][b] = crc;
    }
    for (std::size_t k = 1; k < 8; ++k)
        for (std::size_t b = 0; b < 256; ++b) tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 0xff];
    return tables;
}

constexpr Tables tables = make_tables();

#if defined(__x86_64__)
constexpr std::size_t stream = 4096;  // bytes per stream, enough to make combining the streams cheap

// A linear map of the 32 bits of a checksum: column i is the image of bit i.
using Matrix = std::array<std::uint32_t, 32>;

constexpr std::uint32_t multiply(const Matrix& matrix, std::uint32_t crc) {
    std::uint32_t result = 0;
    for (std::size_t bit = 0; bit < 32; ++bit)
        if (crc >> bit & 1) result ^= matrix[bit];
    return result;
}

// Returns the effect of `bytes` zero bytes on a checksum: multiplication by x^(8 * bytes) modulo the polynomial.
constexpr Matrix zeros_matrix(std::size_t bytes) {
    Matrix one{};  // the effect of one zero bit
    one[0] = polynomial;
    for (std::size_t bit = 1; bit < 32; ++bit) one[bit] = 1u << (bit - 1);
    Matrix result{};
    for (std::size_t bit = 0; bit < 32; ++bit) result[bit] = 1u << bit;
    Matrix power = one;
    for (std::size_t bits = 8 * bytes; bits; bits >>= 1) {
        if (bits & 1)
            for (auto& column : result) column = multiply(power, column);
        Matrix square{};
        for (std::size_t bit = 0; bit < 32; ++bit) square[bit] = multiply(power, power[bit]);
        power = square;
    }
    return result;
}

using Skip = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr Skip make_skip() {
    const Matrix matrix = zeros_matrix(stream);
    Skip skip{};
    for (std::size_t byte = 0; byte < 4; ++byte)
        for (std::uint32_t value = 0; value < 256; ++value) skip[byte][value] = multiply(matrix, value << 8 * byte);
    return skip;
}

constexpr Skip skip = make_skip();

std::uint32_t after_stream(std::uint32_t crc) {
    return skip[0][crc & 0xff] ^ skip[1][crc >> 8 & 0xff] ^ skip[2][crc >> 16 & 0xff] ^ skip[3][crc >> 24];
}

__attribute__((target("sse4.2"))) std::uint64_t word_crc(std::uint64_t crc, const unsigned char* p) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    return _mm_crc32_u64(crc, word);
}

// The instruction has a latency of three cycles and a throughput of one per cycle, so three streams use it fully.
__attribute__((target("sse4.2"))) std::uint32_t update_sse42(std::uint32_t crc, const unsigned char* p,
                                                             std::size_t size) {
    for (; size >= 3 * stream; p += 3 * stream, size -= 3 * stream) {
        std::uint64_t a = crc, b = 0, c = 0;
        for (std::size_t i = 0; i < stream; i += 8) {
            a = word_crc(a, p + i);
            b = word_crc(b, p + stream + i);
            c = word_crc(c, p + 2 * stream + i);
        }
        crc = static_cast<std::uint32_t>(a);
        crc = after_stream(crc) ^ static_cast<std::uint32_t>(b);
        crc = after_stream(crc) ^ static_cast<std::uint32_t>(c);
    }
    std::uint64_t wide = crc;
    for (; size >= 8; p += 8, size -= 8) wide = word_crc(wide, p);
    crc = static_cast<std::uint32_t>(wide);
    for (; size; ++p, --size) crc = _mm_crc32_u8(crc, *p);
    return crc;
}
#endif

}  // namespace

namespace crc32c_parts {

std::uint32_t update_portable(std::uint32_t crc, const unsigned char* p, std::size_t size) {
    for (; size >= 8; p += 8, size -= 8) {
        const std::uint32_t low =
            crc ^ (p[0] | static_cast<std::uint32_t>(p[1]) << 8 | static_cast<std::uint32_t>(p[2]) << 16 |
                   static_cast<std::uint32_t>(p[3]) << 24);
        crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^ tables[5][low >> 16 & 0xff] ^ tables[4][low >> 24] ^
              tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
    }
    for (; size; ++p, --size) crc = crc >> 8 ^ tables[0][(crc ^ *p) & 0xff];
    return crc;
}

}  // namespace crc32c_parts

std::uint32_t crc32c(const void* data, std::size_t size, std::uint32_t seed) {
    const auto* p = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
    if (cpu::features().sse42) return ~update_sse42(~seed, p, size);
#endif
    return ~crc32c_parts::update_portable(~seed, p, size);
}

}  // namespace idcwh
