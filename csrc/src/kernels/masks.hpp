// Bitmaps of rows. Included like scalar.hpp, with IDCWH_POPCOUNT64 defined.
#pragma once

#include "scalar.hpp"

namespace idcwh::kernels {
namespace {

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
            // The top bit of each byte that is not zero; the product brings the eight of them side by side.
            const std::uint64_t set = (((eight & low) + low) | eight) & top;
            word |= (set >> 7) * 0x0102040810204080u >> 56 << 8 * part;
        }
        out[i] = word;
    }
}

}  // namespace
}  // namespace idcwh::kernels
