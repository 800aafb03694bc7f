// Comparison of one query with row-major codes by 128-bit NEON vectors: eight rows yield eight 16-bit distances.
//
// Each class below loads rows of one width. Bits are counted per byte (vcnt), and neighbours are added until a row is
// one lane. Reads may exceed the eight rows by `overrun` bytes, but never the block, because its last rows are compared
// one by one.
#pragma once

#include <arm_neon.h>

#include "cpu/kernels/scalar.hpp"

namespace idcwh::kernels {
namespace {

// Adds four vectors, each with the counts of two rows, to eight distances in order.
IDCWH_INLINE uint16x8_t add_pairs(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d) {
    return vpaddlq_u8(vpaddq_u8(vpaddq_u8(a, b), vpaddq_u8(c, d)));
}

// Returns the indices of a table look-up that moves rows of `bytes` bytes to lanes of `lane` bytes. An index that is
// too large yields zero.
IDCWH_INLINE uint8x16_t spread_pattern(std::size_t bytes, std::size_t lane) {
    std::uint8_t pattern[16];
    for (std::size_t i = 0; i < 16; ++i)
        pattern[i] = i % lane < bytes ? static_cast<std::uint8_t>(i / lane * bytes + i % lane) : 0xff;
    return vld1q_u8(pattern);
}

struct Rows1 {
    static constexpr std::size_t overrun = 0;
    uint8x8_t query;
    IDCWH_INLINE Rows1(const std::uint8_t* q, std::size_t) : query(vdup_n_u8(q[0])) {}
    IDCWH_INLINE uint16x8_t eight(const std::uint8_t* p, std::size_t) const {
        return vmovl_u8(vcnt_u8(veor_u8(vld1_u8(p), query)));
    }
};

struct Rows2 {
    static constexpr std::size_t overrun = 0;
    uint8x16_t query;
    IDCWH_INLINE Rows2(const std::uint8_t* q, std::size_t)
        : query(vreinterpretq_u8_u16(vdupq_n_u16(static_cast<std::uint16_t>(q[0] | q[1] << 8)))) {}
    IDCWH_INLINE uint16x8_t eight(const std::uint8_t* p, std::size_t) const {
        return vpaddlq_u8(vcntq_u8(veorq_u8(vld1q_u8(p), query)));
    }
};

// 3 or 4 bytes per row: 32-bit lanes.
template <bool Exact>
struct Rows4 {
    static constexpr std::size_t overrun = Exact ? 0 : 4;
    uint8x16_t query, pattern;
    IDCWH_INLINE Rows4(const std::uint8_t* q, std::size_t bytes) : pattern(spread_pattern(bytes, 4)) {
        query = vreinterpretq_u8_u32(vdupq_n_u32(static_cast<std::uint32_t>(load_tail(q, bytes))));
    }
    IDCWH_INLINE uint8x16_t four(const std::uint8_t* p) const {
        uint8x16_t rows = vld1q_u8(p);
        if constexpr (!Exact) rows = vqtbl1q_u8(rows, pattern);
        return vcntq_u8(veorq_u8(rows, query));
    }
    IDCWH_INLINE uint16x8_t eight(const std::uint8_t* p, std::size_t bytes) const {
        return vpaddlq_u8(vpaddq_u8(four(p), four(p + 4 * bytes)));
    }
};

// 5 to 8 bytes per row: 64-bit lanes.
template <bool Exact>
struct Rows8 {
    static constexpr std::size_t overrun = Exact ? 0 : 6;
    uint8x16_t query, pattern;
    IDCWH_INLINE Rows8(const std::uint8_t* q, std::size_t bytes) : pattern(spread_pattern(bytes, 8)) {
        query = vreinterpretq_u8_u64(vdupq_n_u64(Exact ? load_word(q) : load_tail(q, bytes)));
    }
    IDCWH_INLINE uint8x16_t two(const std::uint8_t* p) const {
        uint8x16_t rows = vld1q_u8(p);
        if constexpr (!Exact) rows = vqtbl1q_u8(rows, pattern);
        return vcntq_u8(veorq_u8(rows, query));
    }
    IDCWH_INLINE uint16x8_t eight(const std::uint8_t* p, std::size_t bytes) const {
        return add_pairs(two(p), two(p + 2 * bytes), two(p + 4 * bytes), two(p + 6 * bytes));
    }
};

// 9 to 16 bytes per row: one vector per row.
struct Rows16 {
    static constexpr std::size_t overrun = 7;
    uint8x16_t query, keep;
    IDCWH_INLINE Rows16(const std::uint8_t* q, std::size_t bytes) {
        std::uint8_t code[16] = {}, mask[16] = {};
        for (std::size_t i = 0; i < bytes; ++i) code[i] = q[i], mask[i] = 0xff;
        query = vld1q_u8(code);
        keep = vld1q_u8(mask);
    }
    IDCWH_INLINE uint8x16_t one(const std::uint8_t* p) const {
        return vcntq_u8(vandq_u8(veorq_u8(vld1q_u8(p), query), keep));
    }
    IDCWH_INLINE uint8x16_t two(const std::uint8_t* p, std::size_t bytes) const {
        return vpaddq_u8(one(p), one(p + bytes));
    }
    IDCWH_INLINE uint16x8_t eight(const std::uint8_t* p, std::size_t bytes) const {
        return add_pairs(two(p, bytes), two(p + 2 * bytes, bytes), two(p + 4 * bytes, bytes),
                         two(p + 6 * bytes, bytes));
    }
};

// 17 or more bytes per row: whole vectors, then one that ends with the row.
struct RowsLong {
    static constexpr std::size_t overrun = 0;
    const std::uint8_t* query;
    uint8x16_t keep;  // mask of the last vector: the bytes that no earlier vector has counted
    IDCWH_INLINE RowsLong(const std::uint8_t* q, std::size_t bytes) : query(q) {
        std::uint8_t mask[16];
        for (std::size_t i = 0; i < 16; ++i) mask[i] = i < 16 - bytes % 16 ? 0 : 0xff;
        keep = vld1q_u8(mask);
    }
    IDCWH_INLINE uint8x16_t difference(const std::uint8_t* p, std::size_t at) const {
        return veorq_u8(vld1q_u8(p + at), vld1q_u8(query + at));
    }
    IDCWH_INLINE uint16x8_t one(const std::uint8_t* p, std::size_t bytes) const {
        uint16x8_t sum = vdupq_n_u16(0);
        std::size_t i = 0;
        for (; i + 32 <= bytes; i += 32)
            sum = vpadalq_u8(sum, vaddq_u8(vcntq_u8(difference(p, i)), vcntq_u8(difference(p, i + 16))));
        if (i + 16 <= bytes) sum = vpadalq_u8(sum, vcntq_u8(difference(p, i))), i += 16;
        if (i < bytes) sum = vpadalq_u8(sum, vcntq_u8(vandq_u8(difference(p, bytes - 16), keep)));
        return sum;
    }
    IDCWH_INLINE uint16x8_t two(const std::uint8_t* p, std::size_t bytes) const {
        return vpaddq_u16(one(p, bytes), one(p + bytes, bytes));
    }
    IDCWH_INLINE uint16x8_t eight(const std::uint8_t* p, std::size_t bytes) const {
        return vpaddq_u16(vpaddq_u16(two(p, bytes), two(p + 2 * bytes, bytes)),
                          vpaddq_u16(two(p + 4 * bytes, bytes), two(p + 6 * bytes, bytes)));
    }
};

// Returns the number of rows, a multiple of eight, that can be read without reading beyond the block.
template <class Rows>
IDCWH_INLINE std::size_t vector_rows(std::size_t rows, std::size_t bytes) {
    const std::size_t spare = (Rows::overrun + bytes - 1) / bytes;
    return rows > spare ? (rows - spare) / 8 * 8 : 0;
}

// Writes the hits among eight rows. mask: one byte per row, nonzero for hits.
IDCWH_INLINE std::size_t put_hits(uint16x8_t distances, std::uint64_t mask, std::size_t row, Hit* hits,
                                  std::size_t count) {
    std::uint16_t values[8];
    vst1q_u16(values, distances);
    for (mask &= 0x8080808080808080u; mask; mask &= mask - 1) {
        const auto lane = static_cast<std::size_t>(__builtin_ctzll(mask)) / 8;
        hits[count++] = {static_cast<std::uint16_t>(row + lane), values[lane]};
    }
    return count;
}

IDCWH_INLINE std::uint64_t bytes_of(uint16x8_t lanes) {
    return vget_lane_u64(vreinterpret_u64_u8(vmovn_u16(lanes)), 0);
}

template <class Rows>
IDCWH_INLINE std::size_t scan_vectors(const std::uint8_t* codes, std::size_t rows, std::size_t bytes,
                                      const std::uint8_t* query, std::uint32_t limit, Hit* hits) {
    const Rows reader(query, bytes);
    const uint16x8_t bound = vdupq_n_u16(static_cast<std::uint16_t>(limit < 65535 ? limit : 65535));
    const std::size_t whole = vector_rows<Rows>(rows, bytes);
    std::size_t count = 0, row = 0;
    for (; row + 16 <= whole; row += 16) {  // one test for two vectors, because hits are rare
        const std::uint8_t* p = codes + row * bytes;
        const uint16x8_t a = reader.eight(p, bytes), b = reader.eight(p + 8 * bytes, bytes);
        const uint16x8_t hit_a = vcleq_u16(a, bound), hit_b = vcleq_u16(b, bound);
        if (__builtin_expect(bytes_of(vorrq_u16(hit_a, hit_b)) != 0, 0)) {
            count = put_hits(a, bytes_of(hit_a), row, hits, count);
            count = put_hits(b, bytes_of(hit_b), row + 8, hits, count);
        }
    }
    return scan_rows(codes, row, rows, bytes, query, limit, hits, count);
}

template <class Rows>
IDCWH_INLINE void distance_vectors(const std::uint8_t* codes, std::size_t rows, std::size_t bytes,
                                   const std::uint8_t* query, std::uint16_t* out) {
    const Rows reader(query, bytes);
    const std::size_t whole = vector_rows<Rows>(rows, bytes);
    for (std::size_t row = 0; row < whole; row += 8) vst1q_u16(out + row, reader.eight(codes + row * bytes, bytes));
    distance_rows(codes, whole, rows, bytes, query, out);
}

// Calls body with the class for rows of this width, and with the width, which is a constant for common widths.
template <class Body>
IDCWH_INLINE auto with_rows(std::size_t bytes, Body body) {
    if (bytes == 1) return body.template operator()<Rows1>(std::size_t{1});
    if (bytes == 2) return body.template operator()<Rows2>(std::size_t{2});
    if (bytes == 3) return body.template operator()<Rows4<false>>(std::size_t{3});
    if (bytes == 4) return body.template operator()<Rows4<true>>(std::size_t{4});
    if (bytes == 6) return body.template operator()<Rows8<false>>(std::size_t{6});
    if (bytes < 8) return body.template operator()<Rows8<false>>(bytes);
    if (bytes == 8) return body.template operator()<Rows8<true>>(std::size_t{8});
    if (bytes == 16) return body.template operator()<Rows16>(std::size_t{16});
    if (bytes < 16) return body.template operator()<Rows16>(bytes);
    if (bytes == 32) return body.template operator()<RowsLong>(std::size_t{32});
    return body.template operator()<RowsLong>(bytes);
}

std::size_t scan_128(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                     std::uint32_t limit, Hit* hits) {
    return with_rows(bytes, [&]<class Rows>(std::size_t width) IDCWH_LAMBDA_INLINE {
        return scan_vectors<Rows>(codes, rows, width, query, limit, hits);
    });
}

void distances_128(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                   std::uint16_t* out) {
    with_rows(bytes, [&]<class Rows>(std::size_t width)
                         IDCWH_LAMBDA_INLINE { distance_vectors<Rows>(codes, rows, width, query, out); });
}

}  // namespace
}  // namespace idcwh::kernels
