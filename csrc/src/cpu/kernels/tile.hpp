// Comparison of four queries with the planes of a block. Every load of codes serves four queries, and every load of a
// table serves two vectors of codes. The sums stay in registers until the whole distance is known.
//
// V is the vector type of an instruction set. V::term(table, plane) returns the number of differing bits per lane. Sums
// are bytes. For limits up to 127, a sum starts at 127 - limit. A hit is then a sum below 128, and one movemask of the
// sign bits tests all lanes.
//
// Wide codes have larger limits: for 512 random bits, the k-th distance is about 200. Then the two halves of a code are
// summed separately with saturation. Their average selects candidates, whose exact distance is computed.
#pragma once

#include "cpu/kernels/scalar.hpp"

namespace idcwh::kernels {
namespace {

inline constexpr std::size_t tile_vectors = 2;

template <class V>
struct Sums {
    typename V::type at[tile_queries][tile_vectors];
};

// Adds one plane to the sums.
template <class V, bool Saturate>
IDCWH_INLINE void add_plane(Sums<V>& sums, const std::uint8_t* plane, const std::uint8_t* const* tables,
                            std::size_t at) {
    auto plane0 = V::load(plane);
    auto plane1 = V::load(plane + V::lanes);
    IDCWH_IN_REGISTER(plane0);
    IDCWH_IN_REGISTER(plane1);
#pragma GCC unroll 4
    for (std::size_t q = 0; q < tile_queries; ++q) {
        const auto table = V::table(tables[q] + at);
        V::template add<Saturate>(sums.at[q][0], V::term(table, plane0));
        V::template add<Saturate>(sums.at[q][1], V::term(table, plane1));
    }
}

// Adds the planes of the bytes [first, last) of a group.
template <class V, bool Saturate>
IDCWH_INLINE void add_planes(Sums<V>& sums, const std::uint8_t* group, const TileQuery* queries, std::size_t first,
                             std::size_t last) {
    constexpr std::size_t plane = tile_vectors * V::lanes;
    const std::uint8_t* const tables[tile_queries] = {queries[0].table, queries[1].table, queries[2].table,
                                                      queries[3].table};
    for (std::size_t byte = first; byte < last; ++byte)
#pragma GCC unroll 2
        for (std::size_t i = 0; i < V::planes_per_byte; ++i) {
            const std::size_t j = byte * V::planes_per_byte + i;
            add_plane<V, Saturate>(sums, group + j * plane, tables, 16 * j);
        }
}

// Returns a mask of up to 64 lanes that sets the bits of the rows [row, rows).
IDCWH_INLINE std::uint64_t lanes_of(std::size_t row, std::size_t rows) {
    const std::size_t left = row < rows ? rows - row : 0;
    return left < 64 ? (std::uint64_t{1} << left) - 1 : ~std::uint64_t{0};
}

// Writes the hits of one vector, its lanes below 128. Not inlined, because hits are rare.
template <class V>
IDCWH_NOINLINE void put_biased(typename V::type sum, std::size_t row, std::size_t rows, unsigned bias,
                               TileQuery& query) {
    if (query.limit < 0) return;
    if (!query.hits) {
        query.count += IDCWH_POPCOUNT64(~V::signs(sum) & V::all & lanes_of(row, rows));
        return;
    }
    alignas(64) std::uint8_t values[V::lanes];
    V::store(values, sum);
    for (auto mask = ~V::signs(sum) & V::all; mask; mask &= mask - 1) {
        const auto lane = static_cast<std::size_t>(__builtin_ctzll(mask));
        if (row + lane >= rows) break;
        query.hits[query.count++] = {static_cast<std::uint16_t>(row + lane),
                                     static_cast<std::uint16_t>(values[lane] - bias)};
    }
}

// plain: the number of bytes of a code that can be added without saturation. Some processors (Zen 3) execute saturating
// additions on the ports that shuffles need.
template <class V>
IDCWH_INLINE void scan_biased(const std::uint8_t* planes, std::size_t rows, std::size_t bytes, std::size_t plain,
                              TileQuery* queries) {
    constexpr std::size_t group_rows = V::lanes * tile_vectors;
    const std::size_t count = V::planes_per_byte * bytes;
    unsigned bias[tile_queries];
    for (std::size_t q = 0; q < tile_queries; ++q) bias[q] = static_cast<unsigned>(127 - queries[q].limit);
    for (std::size_t row = 0; row < rows; row += group_rows, planes += count * group_rows) {
        Sums<V> sums;
#pragma GCC unroll 4
        for (std::size_t q = 0; q < tile_queries; ++q) sums.at[q][0] = sums.at[q][1] = V::set1(bias[q]);
        add_planes<V, false>(sums, planes, queries, 0, plain);
        add_planes<V, true>(sums, planes, queries, plain, bytes);
#pragma GCC unroll 4
        for (std::size_t q = 0; q < tile_queries; ++q) {
            if (__builtin_expect(V::signs(V::both(sums.at[q][0], sums.at[q][1])) != V::all, 0)) {
                put_biased<V>(sums.at[q][0], row, rows, bias[q], queries[q]);
                put_biased<V>(sums.at[q][1], row + V::lanes, rows, bias[q], queries[q]);
            }
        }
    }
}

template <class V>
IDCWH_NOINLINE void put_candidates(typename V::mask mask, const std::uint8_t* codes, std::size_t row, std::size_t rows,
                                   std::size_t bytes, TileQuery& query) {
    for (; mask; mask &= mask - 1) {
        const std::size_t at = row + static_cast<std::size_t>(__builtin_ctzll(mask));
        if (at >= rows) break;
        const auto distance = static_cast<std::int32_t>(row_distance(codes + at * bytes, query.code, bytes));
        if (distance > query.limit) continue;
        if (query.hits)
            query.hits[query.count] = {static_cast<std::uint16_t>(at), static_cast<std::uint16_t>(distance)};
        ++query.count;
    }
}

template <class V>
IDCWH_INLINE void scan_split(const std::uint8_t* codes, const std::uint8_t* planes, std::size_t rows, std::size_t bytes,
                             TileQuery* queries) {
    constexpr std::size_t group_rows = V::lanes * tile_vectors;
    const std::size_t count = V::planes_per_byte * bytes;
    for (std::size_t row = 0; row < rows; row += group_rows, planes += count * group_rows) {
        Sums<V> low, high;
        for (std::size_t q = 0; q < tile_queries; ++q)
            low.at[q][0] = low.at[q][1] = high.at[q][0] = high.at[q][1] = V::set1(0);
        // The first 31 bytes of a half have at most 248 bits, so their sum cannot overflow a byte.
        const std::size_t middle = bytes / 2, half = bytes - middle;
        const std::size_t plain_low = middle < 31 ? middle : 31, plain_high = middle + (half < 31 ? half : 31);
        add_planes<V, false>(low, planes, queries, 0, plain_low);
        add_planes<V, true>(low, planes, queries, plain_low, middle);
        add_planes<V, false>(high, planes, queries, middle, plain_high);
        add_planes<V, true>(high, planes, queries, plain_high, bytes);
#pragma GCC unroll 4
        for (std::size_t q = 0; q < tile_queries; ++q) {
            if (queries[q].limit < 0) continue;
            // average rounds up: low + high <= limit implies average(low, high) <= (limit + 1) / 2
            const auto bound = V::set1(static_cast<unsigned>(queries[q].limit + 1) / 2);
            for (std::size_t v = 0; v < tile_vectors; ++v) {
                const auto mask = V::at_most(V::average(low.at[q][v], high.at[q][v]), bound);
                if (__builtin_expect(mask != 0, 0))
                    put_candidates<V>(mask, codes, row + v * V::lanes, rows, bytes, queries[q]);
            }
        }
    }
}

template <class V>
void scan_tile(const std::uint8_t* codes, const std::uint8_t* planes, std::size_t rows, std::size_t bytes,
               TileQuery* queries) {
    std::int32_t most = -1, least = tile_max_limit;
    for (std::size_t q = 0; q < tile_queries; ++q) {
        queries[q].count = 0;
        if (queries[q].limit > most) most = queries[q].limit;
        if (queries[q].limit >= 0 && queries[q].limit < least) least = queries[q].limit;
    }
    if (most > 127) {
        scan_split<V>(codes, planes, rows, bytes, queries);
    } else if (bytes > 16) {
        const auto plain = static_cast<std::size_t>(128 + least) / 8;  // 127 - limit + 8 * plain <= 255
        scan_biased<V>(planes, rows, bytes, plain < bytes ? plain : bytes, queries);
    } else {
        with_constant_width(bytes, [&](auto width) IDCWH_LAMBDA_INLINE {
            scan_biased<V>(planes, rows, width, width, queries);
            return 0;
        });
    }
}

}  // namespace
}  // namespace idcwh::kernels
