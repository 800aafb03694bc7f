// What an instruction set has to offer: the inner loops of the engine, as plain functions over row-major blocks.
//
// A block is at most max_block_rows rows, so that a row number fits 16 bits. What is per query and per block is here;
// what to keep, and in which order, is the engine's (selector.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace idcwh::kernels {

inline constexpr std::size_t max_block_rows = 4096;

struct Hit {
    std::uint16_t row;  // in the block
    std::uint16_t distance;
};

// Several queries over one block, sharing every load of it. The kernels read the codes from planes: for each byte of a
// code (or half of one), the bytes of many codes side by side, one code a lane.
inline constexpr std::size_t tile_queries = 4;
inline constexpr std::int32_t tile_max_limit = 500;  // the largest limit that scan_tile takes; scan takes any

struct TileQuery {
    const std::uint8_t* code;
    const std::uint8_t* table;  // as prepare made it
    std::int32_t limit;         // hits are the rows with distance <= limit; below 0 there are none
    Hit* hits;                  // room for every row of the block; null: they are only counted
    std::size_t count;          // out
};

// How many bits were listed, of how many words.
struct Listed {
    std::size_t bits, words;
};

struct Kernels {
    const char* name;
    // Nanoseconds per byte of a code that is compared with one query of a batch, on Zen 3, for the cost model. Ratios:
    // benchmarks/search.py --plain --n 1000000 --bits 64 128 256 --isa NAME on Zen 5.
    double byte_ns;

    // Writes the rows with distance <= limit to hits, in row order, and returns their number. hits has room for all
    // rows.
    std::size_t (*scan)(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                        std::uint32_t limit, Hit* hits);
    // Writes the distance of every row.
    void (*distances)(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                      std::uint16_t* out);

    // Bitmaps of rows: the bits set in `count` words; bit i of `words` words set where byte i is not zero.
    std::size_t (*count_bits)(const std::uint64_t* words, std::size_t count);
    void (*pack_bytes)(const std::uint8_t* bytes, std::size_t words, std::uint64_t* out);
    // The numbers of the bits set, first for the lowest of the first word, word after word while out has room for 64.
    Listed (*list_bits)(const std::uint64_t* words, std::size_t count, std::int64_t first, std::int64_t* out,
                        std::size_t room);

    // The batch path; spread is null where the instruction set has none, and every query is then scanned on its own.
    std::size_t planes_per_byte;  // 2: half bytes, for table look-ups; 1: whole bytes
    std::size_t group_rows;       // rows come in groups of this many; the last group is padded
    void (*spread)(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, std::uint8_t* planes);
    void (*prepare)(const std::uint8_t* query, std::size_t bytes, std::uint8_t* table);
    void (*scan_tile)(const std::uint8_t* codes, const std::uint8_t* planes, std::size_t rows, std::size_t bytes,
                      TileQuery* queries);

    std::size_t planes_size(std::size_t rows, std::size_t bytes) const {
        return (rows + group_rows - 1) / group_rows * group_rows * planes_per_byte * bytes;
    }
    std::size_t table_size(std::size_t bytes) const { return 16 * planes_per_byte * bytes; }
};

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
