// Kernels for bitmaps of rows. Included like scalar.hpp, with IDCWH_POPCOUNT64 defined.
#pragma once

#include "cpu/kernels/scalar.hpp"

namespace idcwh::kernels {
namespace {

// Returns the position of the lowest set bit. The result is arbitrary if there is none.
IDCWH_INLINE std::int64_t lowest_bit(std::uint64_t bits) { return __builtin_ctzll(bits | std::uint64_t{1} << 63); }

inline std::size_t count_bits_scalar(const std::uint64_t* words, std::size_t count) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += IDCWH_POPCOUNT64(words[i]);
    return sum;
}

inline void pack_bytes_scalar(const std::uint8_t* bytes, std::size_t words, std::uint64_t* out) {
    constexpr std::uint64_t low = 0x7f7f7f7f7f7f7f7fu, top = 0x8080808080808080u;
    for (std::size_t i = 0; i < words; ++i) {
        std::uint64_t word = 0;
        for (std::size_t part = 0; part < 8; ++part, bytes += 8) {
            const std::uint64_t eight = load_word(bytes);
            // Sets the top bit of each nonzero byte; the product moves these eight bits together.
            const std::uint64_t set = (((eight & low) + low) | eight) & top;
            word |= (set >> 7) * 0x0102040810204080u >> 56 << 8 * part;
        }
        out[i] = word;
    }
}

// Most words of a sparse bitmap have no, one or two bits, unpredictably. So two numbers are always written, and count
// only if the bits are set.
inline Listed list_bits_scalar(const std::uint64_t* words, std::size_t count, std::int64_t first, std::int64_t* out,
                               std::size_t capacity) {
    Listed listed{0, 0};
    for (; listed.words < count && listed.bits + 64 <= capacity; ++listed.words, first += 64) {
        std::uint64_t bits = words[listed.words];
        std::int64_t* to = out + listed.bits;
        listed.bits += IDCWH_POPCOUNT64(bits);
        for (int j = 0; j < 2; ++j, bits &= bits - 1) to[j] = first + lowest_bit(bits);
        for (to += 2; __builtin_expect(bits != 0, 0); bits &= bits - 1) *to++ = first + lowest_bit(bits);
    }
    return listed;
}

}  // namespace
}  // namespace idcwh::kernels
