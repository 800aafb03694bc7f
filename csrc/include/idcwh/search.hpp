// Exact Hamming search over packed binary codes that lie in the caller's memory.
//
// A code of b bits is ceil(b/8) bytes, rows lie one after the other with nothing between them, bit i is in byte i/8 at
// position i%8 (least significant first), and the padding bits of the last byte are zero. Nothing is copied: a
// memory-mapped file is searched where it lies.
//
// Every result is ordered by (distance, id), ascending: the same for each instruction set, thread count and batch size.
// Every function may be called from many threads at once, as long as nobody changes the memory it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "error.hpp"
#include "export.hpp"

namespace idcwh {

inline constexpr unsigned max_bits = 65535;  // distances of one code to another are held in 16 bits inside
inline constexpr unsigned max_threads = 1024;

constexpr std::size_t code_bytes(unsigned bits) { return (static_cast<std::size_t>(bits) + 7) / 8; }

// Codes in the caller's memory: size rows of code_bytes(bits) bytes.
struct Codes {
    const std::uint8_t* data = nullptr;
    std::size_t size = 0;
    unsigned bits = 0;
};

struct SearchOptions {
    const std::int64_t* ids = nullptr;   // [size] unique, in any order; null: the id of a row is its number
    const std::uint8_t* mask = nullptr;  // [size] rows with a non-zero byte are searched; null: all of them
    unsigned threads = 0;                // 0: as many as the process may run on
};

// How many rows a search can return at most: all of them, or those the mask lets through.
IDCWH_API std::size_t eligible(const Codes& codes, const SearchOptions& options = {});

// The k nearest codes of each query. Writes min(k, eligible) distances and ids a query, row after row, to distances and
// ids, which the caller has allocated. queries: nq rows of the same width. Returns min(k, eligible).
IDCWH_API std::size_t topk(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                           std::int32_t* distances, std::int64_t* ids, const SearchOptions& options = {});

// The hits of query i are at [limits[i], limits[i + 1]) of distances and ids.
struct RadiusResult {
    std::vector<std::int64_t> limits;  // [nq + 1]
    std::vector<std::int32_t> distances;
    std::vector<std::int64_t> ids;
};

// Every code within radius of each query, the radius included. Above bits, the radius simply takes in everything.
IDCWH_API RadiusResult radius(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
                              const SearchOptions& options = {});

// The whole Hamming ranking: every eligible row for each query, by counting sort. distances and ids: nq x eligible.
IDCWH_API std::size_t rank(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int32_t* distances,
                           std::int64_t* ids, const SearchOptions& options = {});

// True when the padding bits of every row are zero, as the contract wants them.
IDCWH_API bool padding_is_zero(const Codes& codes);

}  // namespace idcwh
