// See self_check.hpp.
#include "cpu/self_check.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <vector>

namespace idcwh {
namespace {

using kernels::Hit;
using kernels::Kernels;
using kernels::tile_queries;

constexpr std::size_t rows = 139;  // one full group of every instruction set, and an incomplete one

std::vector<std::uint8_t> pseudo_random(std::size_t size) {
    std::vector<std::uint8_t> bytes(size);
    std::uint64_t state = 0x9e3779b97f4a7c15u;
    for (auto& byte : bytes) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        byte = static_cast<std::uint8_t>(state >> 32);
    }
    return bytes;
}

bool equal(const Hit* hits, std::size_t count, const std::vector<std::uint16_t>& distances, std::int32_t limit) {
    std::size_t at = 0;
    for (std::size_t row = 0; row < distances.size(); ++row) {
        if (distances[row] > limit) continue;
        if (at == count || hits[at].row != row || hits[at].distance != distances[row]) return false;
        ++at;
    }
    return at == count;
}

const char* differing_row_kernel(const Kernels& kernels, const std::uint8_t* codes, std::size_t bytes,
                                 const std::uint8_t* query, const std::vector<std::uint16_t>& expected) {
    std::vector<std::uint16_t> distances(rows);
    kernels.distances(codes, rows, bytes, query, distances.data());
    if (distances != expected) return "distances";
    std::vector<Hit> hits(rows);
    for (const auto limit : {static_cast<std::uint32_t>(4 * bytes), 0u, 65535u}) {
        const std::size_t count = kernels.scan(codes, rows, bytes, query, limit, hits.data());
        if (!equal(hits.data(), count, expected, static_cast<std::int32_t>(limit))) return "scan";
    }
    return nullptr;
}

const char* differing_tile_kernel(const Kernels& kernels, const std::uint8_t* codes, std::size_t bytes,
                                  const std::uint8_t* queries, const std::vector<std::uint16_t>* expected) {
    // The engine aligns them too (AlignedBytes in scan.hpp).
    const auto aligned = [](std::vector<std::uint8_t>& memory) {
        return memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
    };
    std::vector<std::uint8_t> plane_memory(kernels.planes_size(rows, bytes) + 64),
        table_memory(tile_queries * kernels.table_size(bytes) + 64);
    kernels.spread(codes, rows, bytes, aligned(plane_memory));
    std::vector<Hit> hits(tile_queries * rows);
    const auto widest = static_cast<std::int32_t>(std::min<std::size_t>(8 * bytes, kernels::tile_max_limit));
    for (const std::int32_t most : {std::min(widest / 2, 127), widest}) {
        kernels::TileQuery tile[tile_queries];
        for (std::size_t q = 0; q < tile_queries; ++q) {
            std::uint8_t* table = aligned(table_memory) + q * kernels.table_size(bytes);
            kernels.prepare(queries + q * bytes, bytes, table);
            tile[q] = {queries + q * bytes, table, most - static_cast<std::int32_t>(q), hits.data() + q * rows, 0};
        }
        kernels.scan_tile(codes, aligned(plane_memory), rows, bytes, tile);
        for (std::size_t q = 0; q < tile_queries; ++q)
            if (!equal(tile[q].hits, tile[q].count, expected[q], tile[q].limit)) return "scan_tile";
    }
    return nullptr;
}

const char* differing_mask_kernel(const Kernels& kernels) {
    std::vector<std::uint8_t> bytes = pseudo_random(64 * 5);
    for (std::size_t i = 0; i < bytes.size(); ++i)
        if (i / 64 == 3 || i % 3 == 0) bytes[i] = 0;
    std::vector<std::uint64_t> words(5), expected(5);
    kernels.pack_bytes(bytes.data(), 5, words.data());
    kernels::portable.pack_bytes(bytes.data(), 5, expected.data());
    if (words != expected) return "pack_bytes";
    const std::size_t count = kernels::portable.count_bits(words.data(), 5);
    if (kernels.count_bits(words.data(), 5) != count) return "count_bits";
    std::vector<std::int64_t> numbers(64 * 5), list(64 * 5);
    const auto listed = kernels.list_bits(words.data(), 5, 640, numbers.data(), numbers.size());
    kernels::portable.list_bits(words.data(), 5, 640, list.data(), list.size());
    if (listed.bits != count || listed.words != 5 ||
        !std::equal(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count), numbers.begin()))
        return "list_bits";
    return nullptr;
}

}  // namespace

const char* differing_kernel(const Kernels& kernels) {
    if (const char* name = differing_mask_kernel(kernels)) return name;
    // Each width with its own code, and one width of each class in between (rows256.hpp, rows128.hpp).
    const std::size_t widths[] = {1, 2, 3, 4, 5, 6, 8, 12, 13, 16, 20, 24, 31, 32, 33, 48, 64};
    const std::vector<std::uint8_t> memory = pseudo_random((rows + tile_queries) * *std::prev(std::end(widths)));
    std::vector<std::uint16_t> expected[tile_queries];
    for (const std::size_t bytes : widths) {
        const std::uint8_t* queries = memory.data();
        const std::uint8_t* codes = memory.data() + tile_queries * bytes;
        for (std::size_t q = 0; q < (kernels.spread ? tile_queries : 1); ++q) {
            expected[q].resize(rows);
            kernels::portable.distances(codes, rows, bytes, queries + q * bytes, expected[q].data());
        }
        if (const char* name = differing_row_kernel(kernels, codes, bytes, queries, expected[0])) return name;
        if (!kernels.spread) continue;
        if (const char* name = differing_tile_kernel(kernels, codes, bytes, queries, expected)) return name;
    }
    return nullptr;
}

}  // namespace idcwh
