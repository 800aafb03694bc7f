// Comparison of one query with row-major codes by 256-bit vectors: sixteen rows yield sixteen 16-bit distances.
//
// Each class below loads rows of one width. The parameter Count counts bits with an instruction set: Count::bytes(x)
// per byte, Count::words(x) per 64-bit word, and Count::words(x, y) per 64-bit word of both. Reads may exceed the
// sixteen rows by `overrun` bytes, but never the block, because its last rows are compared one by one.
#pragma once

#include "cpu/kernels/masks.hpp"
#include "cpu/kernels/scalar.hpp"

namespace idcwh::kernels {
namespace {

IDCWH_INLINE __m256i load256(const std::uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
IDCWH_INLINE __m128i load128(const std::uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
IDCWH_INLINE __m256i load_halves(const std::uint8_t* low, const std::uint8_t* high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(low)), load128(high), 1);
}

// Prefetches cache lines: far ahead into the second-level cache, which can wait for more lines than the first, and
// nearer into the first. Zen 5 is faster with a single prefetch of short rows. The hardware prefetcher stops at each
// page and follows these loads too late. The distances are measured by csrc/bench/bandwidth.cpp. Prefetching after the
// last row is harmless.
IDCWH_INLINE void prefetch(const std::uint8_t* p, std::size_t bytes) {
    const char* const at = reinterpret_cast<const char*>(p);
    if (bytes < 64 && single_prefetch) return _mm_prefetch(at + 4096, _MM_HINT_T0);
    const bool wide = bytes >= 192;
    _mm_prefetch(at + (wide ? 2048 : 1024), _MM_HINT_T0);
    _mm_prefetch(at + (wide ? 8192 : 3072), _MM_HINT_T1);
}

// Packs four vectors of four 64-bit sums to sixteen 16-bit sums. The 128-bit halves stay separate: a[0] a[1] b[0] b[1]
// ... in the low half, a[2] a[3] b[2] b[3] ... in the high half.
IDCWH_INLINE __m256i pack_words(__m256i a, __m256i b, __m256i c, __m256i d) {
    return _mm256_packus_epi32(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
}
// Does the same in memory order.
IDCWH_INLINE __m256i pack_words_in_order(__m256i a, __m256i b, __m256i c, __m256i d) {
    return _mm256_permutevar8x32_epi32(pack_words(a, b, c, d), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// 1 byte per row.
template <class Count>
struct Rows1 {
    static constexpr std::size_t overrun = 0;
    __m128i query;
    IDCWH_INLINE Rows1(const std::uint8_t* q, std::size_t) : query(_mm_set1_epi8(static_cast<char>(q[0]))) {}
    IDCWH_INLINE __m256i sixteen(const std::uint8_t* p, std::size_t) const {
        const __m256i x = _mm256_cvtepu8_epi16(_mm_xor_si128(load128(p), query));
        return Count::bytes(x);  // the other byte of each lane is zero
    }
};

// 2 bytes per row.
template <class Count>
struct Rows2 {
    static constexpr std::size_t overrun = 0;
    __m256i query;
    IDCWH_INLINE Rows2(const std::uint8_t* q, std::size_t)
        : query(_mm256_set1_epi16(static_cast<short>(q[0] | q[1] << 8))) {}
    IDCWH_INLINE __m256i sixteen(const std::uint8_t* p, std::size_t) const {
        return _mm256_maddubs_epi16(Count::bytes(_mm256_xor_si256(load256(p), query)), _mm256_set1_epi8(1));
    }
};

// Returns the pattern of a shuffle that moves rows of `bytes` bytes to lanes of `lane` bytes, with zeros in between, in
// each 128-bit half.
IDCWH_INLINE __m256i spread_pattern(std::size_t bytes, std::size_t lane) {
    std::uint8_t pattern[32];
    for (std::size_t i = 0; i < 32; ++i) {
        const std::size_t at = i % 16;
        pattern[i] = at % lane < bytes ? static_cast<std::uint8_t>(at / lane * bytes + at % lane) : 0x80;
    }
    return load256(pattern);
}

// 3 or 4 bytes per row: 32-bit lanes.
template <class Count, bool Exact>
struct Rows4 {
    static constexpr std::size_t overrun = Exact ? 0 : 4;
    __m256i query, pattern;
    IDCWH_INLINE Rows4(const std::uint8_t* q, std::size_t bytes) : pattern(spread_pattern(bytes, 4)) {
        query = _mm256_set1_epi32(static_cast<int>(load_tail(q, bytes)));
    }
    IDCWH_INLINE __m256i eight(const std::uint8_t* p) const {
        __m256i rows;
        if constexpr (Exact)
            rows = load256(p);
        else
            rows = _mm256_shuffle_epi8(load_halves(p, p + 12), pattern);
        const __m256i counts = Count::bytes(_mm256_xor_si256(rows, query));
        return _mm256_madd_epi16(_mm256_maddubs_epi16(counts, _mm256_set1_epi8(1)), _mm256_set1_epi16(1));
    }
    IDCWH_INLINE __m256i sixteen(const std::uint8_t* p, std::size_t bytes) const {
        return _mm256_permute4x64_epi64(_mm256_packus_epi32(eight(p), eight(p + 8 * bytes)), 0xd8);
    }
};

// 8 bytes per row.
template <class Count>
struct Rows8 {
    static constexpr std::size_t overrun = 0;
    __m256i query;
    IDCWH_INLINE Rows8(const std::uint8_t* q, std::size_t)
        : query(_mm256_set1_epi64x(static_cast<long long>(load_word(q)))) {}
    IDCWH_INLINE __m256i four(const std::uint8_t* p) const { return Count::words(_mm256_xor_si256(load256(p), query)); }
    IDCWH_INLINE __m256i sixteen(const std::uint8_t* p, std::size_t) const {
        return pack_words_in_order(four(p), four(p + 32), four(p + 64), four(p + 96));
    }
};

// 5 to 7 bytes per row. Rows 2i and 2i + 1 are in the low half, 2i + 8 and 2i + 9 in the high one, so that packing
// keeps their order.
template <class Count>
struct RowsTo8 {
    static constexpr std::size_t overrun = 6;
    __m256i query, pattern;
    IDCWH_INLINE RowsTo8(const std::uint8_t* q, std::size_t bytes) : pattern(spread_pattern(bytes, 8)) {
        query = _mm256_set1_epi64x(static_cast<long long>(load_tail(q, bytes)));
    }
    IDCWH_INLINE __m256i four(const std::uint8_t* p, std::size_t bytes) const {
        const __m256i rows = _mm256_shuffle_epi8(load_halves(p, p + 8 * bytes), pattern);
        return Count::words(_mm256_xor_si256(rows, query));
    }
    IDCWH_INLINE __m256i sixteen(const std::uint8_t* p, std::size_t bytes) const {
        return pack_words(four(p, bytes), four(p + 2 * bytes, bytes), four(p + 4 * bytes, bytes),
                          four(p + 6 * bytes, bytes));
    }
};

// 9 to 16 bytes per row: row i in the low half, row i + 8 in the high one.
template <class Count>
struct RowsTo16 {
    static constexpr std::size_t overrun = 7;
    __m256i query, keep;
    IDCWH_INLINE RowsTo16(const std::uint8_t* q, std::size_t bytes) {
        std::uint8_t code[16] = {}, mask[16] = {};
        for (std::size_t i = 0; i < bytes; ++i) {
            code[i] = q[i];
            mask[i] = 0xff;
        }
        query = load_halves(code, code);
        keep = load_halves(mask, mask);
    }
    IDCWH_INLINE __m256i two(const std::uint8_t* p, std::size_t bytes) const {
        const __m256i rows = load_halves(p, p + 8 * bytes);
        return Count::words(_mm256_and_si256(_mm256_xor_si256(rows, query), keep));
    }
    IDCWH_INLINE __m256i four(const std::uint8_t* p, std::size_t bytes) const {
        const __m256i a = two(p, bytes), b = two(p + bytes, bytes);
        return _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    }
    IDCWH_INLINE __m256i sixteen(const std::uint8_t* p, std::size_t bytes) const {
        return pack_words(four(p, bytes), four(p + 2 * bytes, bytes), four(p + 4 * bytes, bytes),
                          four(p + 6 * bytes, bytes));
    }
};

// 24 bytes per row: four rows are three vectors without a gap, and their twelve 64-bit counts are sorted by row.
template <class Count>
struct Rows24 {
    static constexpr std::size_t overrun = 0;
    __m256i query[3];
    IDCWH_INLINE Rows24(const std::uint8_t* q, std::size_t) {
        std::uint8_t repeated[96];
        for (std::size_t i = 0; i < 96; ++i) repeated[i] = q[i % 24];
        for (std::size_t i = 0; i < 3; ++i) query[i] = load256(repeated + 32 * i);
    }
    IDCWH_INLINE __m256i four(const std::uint8_t* p) const {
        const __m256i x = Count::words(_mm256_xor_si256(load256(p), query[0]));       // a a a b
        const __m256i y = Count::words(_mm256_xor_si256(load256(p + 32), query[1]));  // b b c c
        const __m256i z = Count::words(_mm256_xor_si256(load256(p + 64), query[2]));  // c d d d
        const __m256i abcd = _mm256_blend_epi32(_mm256_blend_epi32(x, y, 0x3c), z, 0xc0);
        const __m256i badc = _mm256_blend_epi32(_mm256_blend_epi32(y, x, 0x0c), z, 0x30);
        const __m256i cdab = _mm256_blend_epi32(z, x, 0xf0);
        return _mm256_add_epi64(_mm256_add_epi64(abcd, _mm256_shuffle_epi32(badc, 0x4e)),
                                _mm256_permute4x64_epi64(cdab, 0x4e));
    }
    IDCWH_INLINE __m256i sixteen(const std::uint8_t* p, std::size_t) const {
        return pack_words_in_order(four(p), four(p + 96), four(p + 192), four(p + 288));
    }
};

// 48 bytes per row: two rows are three vectors without a gap.
template <class Count>
struct Rows48 {
    static constexpr std::size_t overrun = 0;
    __m256i query[3];
    IDCWH_INLINE Rows48(const std::uint8_t* q, std::size_t) {
        query[0] = load256(q);
        query[1] = load_halves(q + 32, q);
        query[2] = load256(q + 16);
    }
    IDCWH_INLINE __m256i two(const std::uint8_t* p) const {
        const __m256i x = Count::words(_mm256_xor_si256(load256(p), query[0]));       // a a a a
        const __m256i y = Count::words(_mm256_xor_si256(load256(p + 32), query[1]));  // a a b b
        const __m256i z = Count::words(_mm256_xor_si256(load256(p + 64), query[2]));  // b b b b
        return _mm256_add_epi64(
            y, _mm256_add_epi64(_mm256_permute2x128_si256(x, z, 0x20), _mm256_permute2x128_si256(x, z, 0x31)));
    }
    IDCWH_INLINE __m256i four(const std::uint8_t* p) const {
        const __m256i ab = two(p), cd = two(p + 96);
        return _mm256_permute4x64_epi64(_mm256_add_epi64(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd)),
                                        0xd8);
    }
    IDCWH_INLINE __m256i sixteen(const std::uint8_t* p, std::size_t) const {
        return pack_words_in_order(four(p), four(p + 192), four(p + 384), four(p + 576));
    }
};

// 17 or more bytes per row: whole vectors, then one that ends with the row. Four rows are read in parallel and share
// the loads of the query. From 192 bytes on, rows are read one after the other, because the hardware prefetcher does
// not follow four distant streams (csrc/bench/bandwidth.cpp).
template <class Count>
struct RowsLong {
    static constexpr std::size_t overrun = 0;
    const std::uint8_t* query;
    __m256i keep;  // mask of the last vector: the bytes that no earlier vector has counted
    IDCWH_INLINE RowsLong(const std::uint8_t* q, std::size_t bytes) : query(q) {
        std::uint8_t mask[32];
        const std::size_t fresh = bytes % 32;
        for (std::size_t i = 0; i < 32; ++i) {
            // Up to 31 bytes per row, the last vector consists of two halves of 16 bytes that overlap.
            const bool counted = bytes < 32 ? i >= 16 && i < 16 + 32 - bytes : i < 32 - fresh;
            mask[i] = counted ? 0 : 0xff;
        }
        keep = load256(mask);
    }
    // Adds the counts of `rows` rows to the sums.
    template <std::size_t rows>
    IDCWH_INLINE void add(__m256i* sums, const std::uint8_t* p, std::size_t bytes) const {
        if (bytes < 32) {
            const __m256i code = load_halves(query, query + bytes - 16);
            for (std::size_t r = 0; r < rows; ++r) {
                const __m256i x = _mm256_xor_si256(load_halves(p + r * bytes, p + r * bytes + bytes - 16), code);
                sums[r] = Count::words(_mm256_and_si256(x, keep));
            }
            return;
        }
        std::size_t i = 0;
        for (; i + 64 <= bytes; i += 64) {
            if (rows == 1) prefetch(p + i, bytes);
            const __m256i low = load256(query + i), high = load256(query + i + 32);
            for (std::size_t r = 0; r < rows; ++r) {
                const std::uint8_t* const row = p + r * bytes + i;
                sums[r] = _mm256_add_epi64(sums[r], Count::words(_mm256_xor_si256(load256(row), low),
                                                                 _mm256_xor_si256(load256(row + 32), high)));
            }
        }
        if (i + 32 <= bytes) {
            const __m256i code = load256(query + i);
            for (std::size_t r = 0; r < rows; ++r)
                sums[r] = _mm256_add_epi64(sums[r], Count::words(_mm256_xor_si256(load256(p + r * bytes + i), code)));
            i += 32;
        }
        if (i < bytes) {
            const __m256i code = load256(query + bytes - 32);
            for (std::size_t r = 0; r < rows; ++r) {
                const __m256i x = _mm256_xor_si256(load256(p + (r + 1) * bytes - 32), code);
                sums[r] = _mm256_add_epi64(sums[r], Count::words(_mm256_and_si256(x, keep)));
            }
        }
    }
    IDCWH_INLINE __m256i four(const std::uint8_t* p, std::size_t bytes) const {
        __m256i s[4];
        for (__m256i& sum : s) sum = _mm256_setzero_si256();
        if (bytes < 192) {
            if (bytes >= 64)
                for (std::size_t line = 0; line < 4 * bytes; line += 64) prefetch(p + line, bytes);
            add<4>(s, p, bytes);
        } else {
            for (std::size_t r = 0; r < 4; ++r) add<1>(s + r, p + r * bytes, bytes);
        }
        const __m256i ab = _mm256_add_epi64(_mm256_unpacklo_epi64(s[0], s[1]), _mm256_unpackhi_epi64(s[0], s[1]));
        const __m256i cd = _mm256_add_epi64(_mm256_unpacklo_epi64(s[2], s[3]), _mm256_unpackhi_epi64(s[2], s[3]));
        return _mm256_add_epi64(_mm256_permute2x128_si256(ab, cd, 0x20), _mm256_permute2x128_si256(ab, cd, 0x31));
    }
    IDCWH_INLINE __m256i sixteen(const std::uint8_t* p, std::size_t bytes) const {
        return pack_words_in_order(four(p, bytes), four(p + 4 * bytes, bytes), four(p + 8 * bytes, bytes),
                                   four(p + 12 * bytes, bytes));
    }
};

// Returns the number of rows, a multiple of sixteen, that can be read without reading beyond the block.
template <class Rows>
IDCWH_INLINE std::size_t vector_rows(std::size_t rows, std::size_t bytes) {
    const std::size_t spare = (Rows::overrun + bytes - 1) / bytes;
    return rows > spare ? (rows - spare) / 16 * 16 : 0;
}

// Writes the hits among sixteen rows, at least one. mask: two bits per row, set for hits.
IDCWH_INLINE std::size_t put_hits(__m256i distances, std::uint32_t mask, std::size_t row, Hit* hits,
                                  std::size_t count) {
    if (mask == 0xffffffffu) {  // all rows are hits: interleaves row numbers and distances
        const __m256i rows = _mm256_add_epi16(_mm256_set1_epi16(static_cast<short>(row)),
                                              _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        const __m256i low = _mm256_unpacklo_epi16(rows, distances), high = _mm256_unpackhi_epi16(rows, distances);
        auto* to = reinterpret_cast<__m256i*>(hits + count);
        _mm256_storeu_si256(to, _mm256_permute2x128_si256(low, high, 0x20));
        _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(low, high, 0x31));
        return count + 16;
    }
    alignas(32) std::uint16_t values[16];
    _mm256_store_si256(reinterpret_cast<__m256i*>(values), distances);
    if (IDCWH_POPCOUNT64(mask) >= 8) {  // at least four hits: too unpredictable for branches
        for (std::size_t lane = 0; lane < 16; ++lane, mask >>= 2) {
            hits[count] = {static_cast<std::uint16_t>(row + lane), values[lane]};
            count += mask & 1;
        }
        return count;
    }
    for (; mask; mask &= mask - 1) {
        const auto lane = static_cast<unsigned>(__builtin_ctz(mask)) / 2;
        hits[count++] = {static_cast<std::uint16_t>(row + lane), values[lane]};
        mask &= mask - 1;  // the second bit of the row
    }
    return count;
}

// Writes the hits among 32 rows. Not inlined, because it would be most of the code of a scan, and each width has a
// scan.
IDCWH_NOINLINE std::size_t put_both(__m256i a, __m256i hit_a, __m256i b, __m256i hit_b, std::size_t row, Hit* hits,
                                    std::size_t count) {
    count = put_hits(a, static_cast<std::uint32_t>(_mm256_movemask_epi8(hit_a)), row, hits, count);
    return put_hits(b, static_cast<std::uint32_t>(_mm256_movemask_epi8(hit_b)), row + 16, hits, count);
}

// Compares sixteen rows and prefetches later ones. RowsLong prefetches rows of 64 or more bytes itself.
template <class Rows>
IDCWH_INLINE __m256i sixteen_and_prefetch(const Rows& reader, const std::uint8_t* p, std::size_t bytes) {
    if (bytes < 64)
        for (std::size_t line = 0; line < 16 * bytes; line += 64) prefetch(p + line, bytes);
    return reader.sixteen(p, bytes);
}

template <class Rows>
IDCWH_INLINE std::size_t scan_vectors(const std::uint8_t* codes, std::size_t rows, std::size_t bytes,
                                      const std::uint8_t* query, std::uint32_t limit, Hit* hits) {
    const Rows reader(query, bytes);
    const __m256i bound = _mm256_set1_epi16(static_cast<short>(limit < 65535 ? limit : 65535));
    const __m256i zero = _mm256_setzero_si256();
    const std::size_t whole = vector_rows<Rows>(rows, bytes);
    std::size_t count = 0, row = 0;
    for (; row + 32 <= whole; row += 32) {  // one test for two vectors, because hits are rare
        const std::uint8_t* p = codes + row * bytes;
        const __m256i a = sixteen_and_prefetch(reader, p, bytes);
        const __m256i b = sixteen_and_prefetch(reader, p + 16 * bytes, bytes);
        const __m256i hit_a = _mm256_cmpeq_epi16(_mm256_subs_epu16(a, bound), zero);
        const __m256i hit_b = _mm256_cmpeq_epi16(_mm256_subs_epu16(b, bound), zero);
        if (__builtin_expect(!_mm256_testz_si256(_mm256_or_si256(hit_a, hit_b), _mm256_set1_epi8(-1)), 0)) {
            count = put_both(a, hit_a, b, hit_b, row, hits, count);
        }
    }
    if (row + 16 <= whole) {
        const __m256i a = reader.sixteen(codes + row * bytes, bytes);
        const __m256i hit_a = _mm256_cmpeq_epi16(_mm256_subs_epu16(a, bound), zero);
        count = put_hits(a, static_cast<std::uint32_t>(_mm256_movemask_epi8(hit_a)), row, hits, count);
        row += 16;
    }
    return scan_rows(codes, row, rows, bytes, query, limit, hits, count);
}

template <class Rows>
IDCWH_INLINE void distance_vectors(const std::uint8_t* codes, std::size_t rows, std::size_t bytes,
                                   const std::uint8_t* query, std::uint16_t* out) {
    const Rows reader(query, bytes);
    const std::size_t whole = vector_rows<Rows>(rows, bytes);
    for (std::size_t row = 0; row < whole; row += 16)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + row),
                            sixteen_and_prefetch(reader, codes + row * bytes, bytes));
    distance_rows(codes, whole, rows, bytes, query, out);
}

// Calls body with the class for rows of this width, and with the width, which is a constant for common widths.
template <class Count, class Body>
IDCWH_INLINE auto with_rows(std::size_t bytes, Body body) {
    if (bytes == 1) return body.template operator()<Rows1<Count>>(std::size_t{1});
    if (bytes == 2) return body.template operator()<Rows2<Count>>(std::size_t{2});
    if (bytes == 3) return body.template operator()<Rows4<Count, false>>(std::size_t{3});
    if (bytes == 4) return body.template operator()<Rows4<Count, true>>(std::size_t{4});
    if (bytes == 6) return body.template operator()<RowsTo8<Count>>(std::size_t{6});
    if (bytes < 8) return body.template operator()<RowsTo8<Count>>(bytes);
    if (bytes == 8) return body.template operator()<Rows8<Count>>(std::size_t{8});
    if (bytes == 12) return body.template operator()<RowsTo16<Count>>(std::size_t{12});
    if (bytes < 16) return body.template operator()<RowsTo16<Count>>(bytes);
    if (bytes == 16) return body.template operator()<RowsTo16<Count>>(std::size_t{16});
    if (bytes == 20) return body.template operator()<RowsLong<Count>>(std::size_t{20});
    if (bytes == 24) return body.template operator()<Rows24<Count>>(std::size_t{24});
    if (bytes == 32) return body.template operator()<RowsLong<Count>>(std::size_t{32});
    if (bytes == 48) return body.template operator()<Rows48<Count>>(std::size_t{48});
    if (bytes == 128) return body.template operator()<RowsLong<Count>>(std::size_t{128});
    if (bytes == 64) return body.template operator()<RowsLong<Count>>(std::size_t{64});
    return body.template operator()<RowsLong<Count>>(bytes);
}

template <class Count>
std::size_t scan_256(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                     std::uint32_t limit, Hit* hits) {
    return with_rows<Count>(bytes, [&]<class Rows>(std::size_t width) IDCWH_LAMBDA_INLINE {
        return scan_vectors<Rows>(codes, rows, width, query, limit, hits);
    });
}

template <class Count>
void distances_256(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                   std::uint16_t* out) {
    with_rows<Count>(bytes, [&]<class Rows>(std::size_t width)
                                IDCWH_LAMBDA_INLINE { distance_vectors<Rows>(codes, rows, width, query, out); });
}

inline void pack_bytes_256(const std::uint8_t* bytes, std::size_t words, std::uint64_t* out) {
    const __m256i zero = _mm256_setzero_si256();
    const auto zeros = [&](const std::uint8_t* p) {
        return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(load256(p), zero)));
    };
    for (std::size_t i = 0; i < words; ++i, bytes += 64)
        out[i] = ~(zeros(bytes) | static_cast<std::uint64_t>(zeros(bytes + 32)) << 32);
}

// Counts the bits of each byte by two look-ups in a table of the sixteen half bytes.
struct CountByTable {
    static IDCWH_INLINE __m256i bytes(__m256i x) {
        const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,  //
                                               0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
        const __m256i low = _mm256_set1_epi8(0x0f);
        return _mm256_add_epi8(_mm256_shuffle_epi8(table, _mm256_and_si256(x, low)),
                               _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(x, 4), low)));
    }
    static IDCWH_INLINE __m256i words(__m256i x) { return _mm256_sad_epu8(bytes(x), _mm256_setzero_si256()); }
    static IDCWH_INLINE __m256i words(__m256i x, __m256i y) {
        return _mm256_sad_epu8(_mm256_add_epi8(bytes(x), bytes(y)), _mm256_setzero_si256());
    }
};

}  // namespace
}  // namespace idcwh::kernels
