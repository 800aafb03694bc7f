// The kernels of one instruction set compared with a bit-by-bit loop: test_kernels NAME.
//
// Blocks end where their memory ends, so that the address sanitizer detects each read beyond them.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "check.hpp"
#include "cpu/kernels/kernels.hpp"
#include "oracle.hpp"
#if !defined(IDCWH_SIMDE)
#include <idcwh/isa.hpp>
#endif

using namespace idcwh::kernels;

namespace {

Kernels kernels;  // those of the instruction set in argv[1]

// Returns codes near the query and far from it, so that every limit has hits.
std::unique_ptr<std::uint8_t[]> block_of(std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                                         std::uint32_t seed) {
    std::mt19937 random(seed);
    auto codes = std::make_unique<std::uint8_t[]>(rows * bytes);
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t i = 0; i < bytes; ++i) {
            std::uint32_t flip = random();
            for (std::uint32_t thin = row % 5; thin; --thin) flip &= random();
            codes[row * bytes + i] = static_cast<std::uint8_t>(query[i] ^ flip);
        }
    if (rows > 2) std::memset(codes.get() + bytes, 0, bytes), std::memset(codes.get() + 2 * bytes, 0xff, bytes);
    return codes;
}

void check_hits(const std::vector<std::uint32_t>& distances, std::int32_t limit, const Hit* hits, std::size_t count) {
    std::size_t at = 0;
    for (std::size_t row = 0; row < distances.size(); ++row) {
        if (static_cast<std::int64_t>(distances[row]) > limit) continue;
        CHECK((at < count && hits[at].row == row && hits[at].distance == distances[row]));
        ++at;
    }
    CHECK(at == count);
}

void check_block(std::size_t rows, std::size_t bytes, std::uint32_t seed) {
    const auto queries = check::random_bytes(tile_queries * bytes, seed);
    const auto codes = block_of(rows, bytes, queries.data(), seed + 1);
    const auto query = [&](std::size_t q) { return queries.data() + q * bytes; };
    std::vector<std::vector<std::uint32_t>> expected(tile_queries);
    for (std::size_t q = 0; q < tile_queries; ++q)
        for (std::size_t row = 0; row < rows; ++row)
            expected[q].push_back(check::distance(codes.get() + row * bytes, query(q), bytes));

    std::vector<std::uint16_t> distances(rows);
    kernels.distances(codes.get(), rows, bytes, query(0), distances.data());
    CHECK(std::equal(distances.begin(), distances.end(), expected[0].begin()));

    std::vector<std::uint32_t> sorted = expected[0];
    std::sort(sorted.begin(), sorted.end());
    std::vector<Hit> hits(rows);
    for (const std::uint32_t limit : {0u, sorted[rows / 50], sorted[rows / 2], sorted[rows - 1], 70000u}) {
        const std::size_t count = kernels.scan(codes.get(), rows, bytes, query(0), limit, hits.data());
        check_hits(expected[0], static_cast<std::int32_t>(limit), hits.data(), count);
    }

    if (!kernels.spread) return;
    std::vector<std::uint8_t> planes(kernels.planes_size(rows, bytes)),
        tables(tile_queries * kernels.table_size(bytes));
    kernels.spread(codes.get(), rows, bytes, planes.data());
    for (std::size_t q = 0; q < tile_queries; ++q)
        kernels.prepare(query(q), bytes, tables.data() + q * kernels.table_size(bytes));
    std::vector<std::vector<Hit>> found(tile_queries, std::vector<Hit>(rows));
    const auto widest = static_cast<std::int32_t>(std::min<std::size_t>(8 * bytes, tile_max_limit));
    const std::int32_t limits[][tile_queries] = {{-1, -1, -1, -1},     {0, -1, 1, 2},       {3, 5, 9, 14},
                                                 {20, 30, 40, 63},     {127, 126, 100, 64}, {widest, 0, -1, widest / 2},
                                                 {128, 200, 254, 255}, {256, 300, 400, 500}};
    for (const auto& limit : limits) {
        TileQuery tile[tile_queries];
        for (std::size_t q = 0; q < tile_queries; ++q)
            tile[q] = {query(q), tables.data() + q * kernels.table_size(bytes), limit[q], found[q].data(), 99};
        kernels.scan_tile(codes.get(), planes.data(), rows, bytes, tile);
        for (std::size_t q = 0; q < tile_queries; ++q) check_hits(expected[q], limit[q], tile[q].hits, tile[q].count);
        for (auto& query : tile) query.hits = nullptr;  // counted, not listed
        std::size_t listed[tile_queries];
        for (std::size_t q = 0; q < tile_queries; ++q) listed[q] = tile[q].count;
        kernels.scan_tile(codes.get(), planes.data(), rows, bytes, tile);
        for (std::size_t q = 0; q < tile_queries; ++q) CHECK(tile[q].count == listed[q]);
    }
}

// Covers bitmaps from empty to full.
TEST("bitmaps are packed, counted and listed like a loop over bits") {
    for (const unsigned share : {0u, 1u, 3u, 20u, 60u, 128u, 255u, 256u}) {
        const std::size_t words = 37;
        auto bytes = std::make_unique<std::uint8_t[]>(64 * words);
        std::mt19937 random(share);
        std::vector<std::int64_t> expected;
        for (std::size_t i = 0; i < 64 * words; ++i) {
            bytes[i] = random() % 256 < share ? static_cast<std::uint8_t>(1 + random() % 255) : 0;
            if (bytes[i]) expected.push_back(static_cast<std::int64_t>(i) + 6400);
        }
        auto bitmap = std::make_unique<std::uint64_t[]>(words);
        kernels.pack_bytes(bytes.get(), words, bitmap.get());
        for (std::size_t i = 0; i < 64 * words; ++i) CHECK((bitmap[i / 64] >> i % 64 & 1) == (bytes[i] != 0));
        CHECK(kernels.count_bits(bitmap.get(), words) == expected.size());
        for (const std::size_t room : {std::size_t{63}, std::size_t{64}, std::size_t{700}, 64 * words}) {
            auto numbers = std::make_unique<std::int64_t[]>(room);
            const Listed listed = kernels.list_bits(bitmap.get(), words, 6400, numbers.get(), room);
            CHECK(listed.bits == kernels.count_bits(bitmap.get(), listed.words));
            CHECK(std::equal(numbers.get(), numbers.get() + listed.bits, expected.begin()));
            CHECK((listed.words == words || listed.bits + 64 > room));
        }
    }
}

const Kernels* find(const std::string& name) {
#if defined(IDCWH_SIMDE)
    return name == IDCWH_SIMDE_ISA.name ? &IDCWH_SIMDE_ISA : nullptr;
#else
    bool supported = false;
    for (const auto& isa : idcwh::isa_list()) supported |= isa.name == name && isa.supported;
    if (!supported) return nullptr;
#if defined(__x86_64__)
    for (const Kernels* kernels : {&portable, &popcnt, &avx2, &avx512, &avx512vpopcnt})
#elif defined(__aarch64__)
    for (const Kernels* kernels : {&portable, &neon})
#else
    for (const Kernels* kernels : {&portable})
#endif
        if (name == kernels->name) return kernels;
    return nullptr;
#endif
}

TEST("distances and scans of narrow codes equal the oracle") {
    std::uint32_t seed = 1;
    for (std::size_t bytes = 1; bytes <= 40; ++bytes)
        for (const std::size_t rows : {1, 2, 15, 16, 17, 33, 64, 100, 257}) check_block(rows, bytes, seed += 7);
}

TEST("distances and scans of wide codes equal the oracle") {
    std::uint32_t seed = 2521;
    for (const std::size_t bytes : {48, 62, 63, 64, 65, 95, 96, 97, 127, 128, 129, 191, 192, 193, 250, 256, 512, 1000})
        for (const std::size_t rows : {1, 16, 31, 130}) check_block(rows, bytes, seed += 7);
}

TEST("distances and scans of a whole block equal the oracle") { check_block(max_block_rows, 8, 5); }

}  // namespace

int main(int argc, char** argv) {
    return check::run(argc, argv, [&] {
        const std::string name = argc > 1 && argv[1][0] != '-' ? argv[1] : "portable";
        const Kernels* found = find(name);
        if (!found)
            throw check::Skipped{"this processor has no " + name +
                                 " (its kernels still run through SIMDe, where that is installed)"};
        kernels = *found;
    });
}
