// Conversion of rows to planes. A plane contains the same byte of many codes, one code per lane.
//
// Codes form groups of `group` rows (a multiple of 16). Plane j of group g starts at byte (g * planes + j) * group.
// With Halves, a byte yields two planes, its low and its high four bits, as indices of tables with 16 entries. Lanes
// after the last row are zero.
#pragma once

#include "cpu/kernels/scalar.hpp"

namespace idcwh::kernels {
namespace {

// Transposes sixteen rows of up to eight bytes (as words) to eight vectors. Vector c holds byte c of every row.
IDCWH_INLINE void transpose_16x8(const std::uint64_t* words, __m128i* out) {
    __m128i a[8], b[8];
    for (int i = 0; i < 8; ++i)
        a[i] = _mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(words + i)),
                                 _mm_loadl_epi64(reinterpret_cast<const __m128i*>(words + i + 8)));
    for (int i = 0; i < 4; ++i) {  // b[i]: columns 0-3 of rows i, i+4, i+8, i+12; b[i + 4]: columns 4-7
        b[i] = _mm_unpacklo_epi8(a[i], a[i + 4]);
        b[i + 4] = _mm_unpackhi_epi8(a[i], a[i + 4]);
    }
    for (int half = 0; half < 2; ++half)
        for (int i = 0; i < 2; ++i) {  // columns 4*half + {0, 1} and {2, 3} of the even (i = 0) or odd rows
            a[4 * half + i] = _mm_unpacklo_epi8(b[4 * half + i], b[4 * half + i + 2]);
            a[4 * half + i + 2] = _mm_unpackhi_epi8(b[4 * half + i], b[4 * half + i + 2]);
        }
    for (int pair = 0; pair < 4; ++pair) {
        const int at = pair / 2 * 4 + pair % 2 * 2;
        out[2 * pair] = _mm_unpacklo_epi8(a[at], a[at + 1]);
        out[2 * pair + 1] = _mm_unpackhi_epi8(a[at], a[at + 1]);
    }
}

// Loads `width` bytes of each of up to sixteen rows, and zeros for missing rows. Not inlined, because the end of a
// block is rare and this would be most of the code of each width.
IDCWH_NOINLINE void load_rest(const std::uint8_t* p, std::size_t rows, std::size_t bytes, std::size_t width,
                              std::uint64_t* words) {
    for (std::size_t i = 0; i < 16; ++i) words[i] = i < rows ? load_tail(p + i * bytes, width) : 0;
}

template <std::size_t Group, bool Halves>
IDCWH_INLINE void spread_width(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, std::uint8_t* planes) {
    constexpr std::size_t per_byte = Halves ? 2 : 1;
    const std::size_t lanes = (rows + Group - 1) / Group * Group;
    const __m128i low = _mm_set1_epi8(0x0f);
    for (std::size_t row = 0; row < lanes; row += 16) {
        std::uint8_t* group = planes + row / Group * per_byte * bytes * Group + row % Group;
        for (std::size_t column = 0; column < bytes; column += 8) {
            const std::size_t width = bytes - column < 8 ? bytes - column : 8;
            const std::uint8_t* p = codes + row * bytes + column;
            std::uint64_t words[16];
            // Whole words are faster if they do not end beyond the block. Their bytes after the row are not stored.
            if (row + 15 < rows && (row + 15) * bytes + column + 8 <= rows * bytes)
                for (std::size_t i = 0; i < 16; ++i) words[i] = load_word(p + i * bytes);
            else
                load_rest(p, row < rows ? rows - row : 0, bytes, width, words);
            __m128i out[8];
            transpose_16x8(words, out);
            for (std::size_t c = 0; c < width; ++c) {
                std::uint8_t* plane = group + (column + c) * per_byte * Group;
                if constexpr (Halves) {
                    const __m128i high = _mm_and_si128(_mm_srli_epi16(out[c], 4), low);
                    _mm_storeu_si128(reinterpret_cast<__m128i*>(plane), _mm_and_si128(out[c], low));
                    _mm_storeu_si128(reinterpret_cast<__m128i*>(plane + Group), high);
                } else {
                    _mm_storeu_si128(reinterpret_cast<__m128i*>(plane), out[c]);
                }
            }
        }
    }
}

template <std::size_t Group, bool Halves>
void spread_planes(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, std::uint8_t* planes) {
    with_constant_width(bytes, [&](auto width) IDCWH_LAMBDA_INLINE {
        spread_width<Group, Halves>(codes, rows, width, planes);
        return 0;
    });
}

// Row h: the distances of the sixteen half bytes to half byte h.
struct HalfDistances {
    std::uint8_t row[16][16];
    constexpr HalfDistances() : row{} {
        for (unsigned h = 0; h < 16; ++h)
            for (unsigned x = 0; x < 16; ++x)
                for (unsigned bit = 0; bit < 4; ++bit) row[h][x] += (x ^ h) >> bit & 1u;
    }
};

// Writes a table per plane: the distances of the sixteen half bytes to the query's half byte.
inline void prepare_halves(const std::uint8_t* query, std::size_t bytes, std::uint8_t* table) {
    alignas(64) static constexpr HalfDistances distances;
    for (std::size_t j = 0; j < bytes; ++j) {
        std::memcpy(table + 32 * j, distances.row[query[j] & 15], 16);
        std::memcpy(table + 32 * j + 16, distances.row[query[j] >> 4], 16);
    }
}

// Writes the query's byte of each plane to the 16 bytes that are broadcast to a vector.
inline void prepare_bytes(const std::uint8_t* query, std::size_t bytes, std::uint8_t* table) {
    for (std::size_t j = 0; j < bytes; ++j) std::memset(table + 16 * j, query[j], 16);
}

}  // namespace
}  // namespace idcwh::kernels
