// Kernels: the inner loops of the engine, one set per instruction set, as plain functions over row-major blocks.
//
// A block has at most max_block_rows rows, so that a row number fits 16 bits. Kernels compare a block with queries. The
// engine decides which hits to keep, and in which order (scan/k_best.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace idcwh::kernels {

inline constexpr std::size_t max_block_rows = 4096;

struct Hit {
    std::uint16_t row;  // row number in the block
    std::uint16_t distance;
};

// A tile is a few queries that scan a block together and share every load of it. The codes are read from planes. A
// plane contains the same byte (or half byte) of many codes, one code per lane.
inline constexpr std::size_t tile_queries = 4;
inline constexpr std::int32_t tile_max_limit = 500;  // the largest limit of scan_tile; scan accepts any

struct TileQuery {
    const std::uint8_t* code;
    const std::uint8_t* table;  // output of prepare()
    std::int32_t limit;         // rows with distance <= limit are hits; below 0 there are none
    Hit* hits;                  // [rows of the block]; null: hits are only counted
    std::size_t count;          // output: number of hits
};

// The result of list_bits(): numbers of listed bits and of words read.
struct Listed {
    std::size_t bits, words;
};

struct Kernels {
    const char* name;
    // Nanoseconds per byte of a code and query of a batch on Zen 3, for the cost model. It needs only the ratios, which
    // benchmarks/search.py --plain --n 1000000 --bits 64 128 256 --isa NAME measures.
    double byte_ns;

    // Writes the rows with distance <= limit to hits [rows], in row order, and returns their number.
    std::size_t (*scan)(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                        std::uint32_t limit, Hit* hits);
    // Writes the distance of every row.
    void (*distances)(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                      std::uint16_t* out);

    // Returns the number of set bits in `count` words.
    std::size_t (*count_bits)(const std::uint64_t* words, std::size_t count);
    // Sets bit i of the `words` words of out if byte i is nonzero.
    void (*pack_bytes)(const std::uint8_t* bytes, std::size_t words, std::uint64_t* out);
    // Writes the numbers of set bits; the lowest bit of the first word has number `first`. Stops before a word that may
    // not fit the capacity of out.
    Listed (*list_bits)(const std::uint64_t* words, std::size_t count, std::int64_t first, std::int64_t* out,
                        std::size_t capacity);

    // The batch path. spread is null if the instruction set has none; then every query is scanned separately.
    std::size_t planes_per_byte;  // 2: half bytes, for table look-ups; 1: whole bytes
    std::size_t group_rows;       // rows per group; the last group is padded
    // Converts rows to planes.
    void (*spread)(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, std::uint8_t* planes);
    // Writes the table of a query.
    void (*prepare)(const std::uint8_t* query, std::size_t bytes, std::uint8_t* table);
    // Writes the hits and counts of tile_queries queries.
    void (*scan_tile)(const std::uint8_t* codes, const std::uint8_t* planes, std::size_t rows, std::size_t bytes,
                      TileQuery* queries);

    std::size_t planes_size(std::size_t rows, std::size_t bytes) const {
        return (rows + group_rows - 1) / group_rows * group_rows * planes_per_byte * bytes;
    }
    std::size_t table_size(std::size_t bytes) const { return 16 * planes_per_byte * bytes; }
};

// True on AMD processors from Zen 5 on. There a scan of 32 to 384 bits is 1.2 to 1.4 times as fast with one prefetch
// per cache line as with two (csrc/bench/bandwidth.cpp).
extern const bool single_prefetch;

extern const Kernels portable;
#if defined(__x86_64__) || defined(IDCWH_SIMDE)
extern const Kernels popcnt;
extern const Kernels avx2;
extern const Kernels avx512;
extern const Kernels avx512vpopcnt;
#endif
#if defined(__aarch64__)
extern const Kernels neon;
#endif

}  // namespace idcwh::kernels
