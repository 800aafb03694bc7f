// Conversion of rows to planes of bytes with NEON, in the layout of planes.hpp.
#pragma once

#include <arm_neon.h>

#include "cpu/kernels/scalar.hpp"

namespace idcwh::kernels {
namespace {

// Transposes sixteen rows of up to eight bytes (as words) to eight vectors. Vector c holds byte c of every row.
IDCWH_INLINE void transpose_16x8(const std::uint64_t* words, uint8x16_t* out) {
    uint8x16_t a[8], b[8];
    for (int i = 0; i < 8; ++i) {
        const uint8x8_t x = vcreate_u8(words[i]), y = vcreate_u8(words[i + 8]);
        a[i] = vcombine_u8(vzip1_u8(x, y), vzip2_u8(x, y));
    }
    // Each step doubles the number of adjacent rows and halves the number of columns in a vector.
    for (int i = 0; i < 4; ++i) b[i] = vzip1q_u8(a[i], a[i + 4]), b[i + 4] = vzip2q_u8(a[i], a[i + 4]);
    for (int half = 0; half < 8; half += 4)
        for (int i = 0; i < 2; ++i) {
            a[half + i] = vzip1q_u8(b[half + i], b[half + i + 2]);
            a[half + i + 2] = vzip2q_u8(b[half + i], b[half + i + 2]);
        }
    for (int i = 0; i < 8; i += 2) out[i] = vzip1q_u8(a[i], a[i + 1]), out[i + 1] = vzip2q_u8(a[i], a[i + 1]);
}

// Loads `width` bytes of each of up to sixteen rows, and zeros for missing rows. Not inlined, because the end of a
// block is rare and this would be most of the code of each width.
IDCWH_NOINLINE void load_rest(const std::uint8_t* p, std::size_t rows, std::size_t bytes, std::size_t width,
                              std::uint64_t* words) {
    for (std::size_t i = 0; i < 16; ++i) words[i] = i < rows ? load_tail(p + i * bytes, width) : 0;
}

template <std::size_t Group>
IDCWH_INLINE void spread_width(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, std::uint8_t* planes) {
    const std::size_t lanes = (rows + Group - 1) / Group * Group;
    for (std::size_t row = 0; row < lanes; row += 16) {
        std::uint8_t* group = planes + row / Group * bytes * Group + row % Group;
        for (std::size_t column = 0; column < bytes; column += 8) {
            const std::size_t width = bytes - column < 8 ? bytes - column : 8;
            const std::uint8_t* p = codes + row * bytes + column;
            std::uint64_t words[16];
            // Whole words are faster if they do not end beyond the block. Their bytes after the row are not stored.
            if (row + 15 < rows && (row + 15) * bytes + column + 8 <= rows * bytes)
                for (std::size_t i = 0; i < 16; ++i) words[i] = load_word(p + i * bytes);
            else
                load_rest(p, row < rows ? rows - row : 0, bytes, width, words);
            uint8x16_t out[8];
            transpose_16x8(words, out);
            for (std::size_t c = 0; c < width; ++c) vst1q_u8(group + (column + c) * Group, out[c]);
        }
    }
}

template <std::size_t Group>
void spread_bytes(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, std::uint8_t* planes) {
    with_constant_width(bytes, [&](auto width) IDCWH_LAMBDA_INLINE {
        spread_width<Group>(codes, rows, width, planes);
        return 0;
    });
}

// Writes the query's byte of each plane to all lanes.
void prepare_lanes(const std::uint8_t* query, std::size_t bytes, std::uint8_t* table) {
    for (std::size_t j = 0; j < bytes; ++j) vst1q_u8(table + 16 * j, vdupq_n_u8(query[j]));
}

}  // namespace
}  // namespace idcwh::kernels
