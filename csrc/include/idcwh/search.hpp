// Exact Hamming search over packed binary codes that lie in the caller's memory.
//
// A code of b bits is ceil(b/8) bytes, rows lie one after the other with nothing between them, bit i is in byte i/8 at
// position i%8 (least significant first), and the padding bits of the last byte are zero. Nothing is copied: a
// memory-mapped file is searched where it lies. For codes that come and go, with ids of their own, see index.hpp.
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

// The rows that a search may return: a view of the caller's memory. Rows that a range or a list leaves out, and whole
// blocks that a bitmap leaves out, are not read.
struct Rows {
    enum class Kind { all, range, list, bitmap, bytes };
    Kind kind = Kind::all;
    std::size_t begin = 0, end = 0;         // range: rows [begin, end), cut to the rows there are
    const std::int64_t* list = nullptr;     // list: rows, ascending, none twice, all below Codes::size
    std::size_t count = 0;                  // how many rows the list has
    const std::uint64_t* bitmap = nullptr;  // bitmap: bit r % 64 of word r / 64 (0 is the lowest) for row r
    const std::uint8_t* bytes = nullptr;    // bytes: [size], not zero for the rows to search

    static Rows all() { return {}; }
    static Rows range(std::size_t begin, std::size_t end) {
        Rows rows{Kind::range};
        rows.begin = begin, rows.end = end;
        return rows;
    }
    static Rows of_list(const std::int64_t* list, std::size_t count) {
        Rows rows{Kind::list};
        rows.list = list, rows.count = count;
        return rows;
    }
    static Rows of_bitmap(const std::uint64_t* words) {
        Rows rows{Kind::bitmap};
        rows.bitmap = words;
        return rows;
    }
    static Rows of_bytes(const std::uint8_t* bytes) {
        Rows rows{Kind::bytes};
        rows.bytes = bytes;
        return rows;
    }
};

// How a long search is stopped: asked every few milliseconds, on the thread that called. True ends the search with
// Error(interrupted).
struct Interrupt {
    bool (*requested)(void* context) = nullptr;
    void* context = nullptr;
};

struct SearchOptions {
    const std::int64_t* ids = nullptr;  // [size] unique, in any order; null: the id of a row is its number
    Rows rows;
    unsigned threads = 0;  // 0: as many as the process may run on (threads.hpp)
    const Interrupt* interrupt = nullptr;
};

// How many rows a search can return at most.
IDCWH_API std::size_t eligible(const Codes& codes, const SearchOptions& options = {});

// The k nearest codes of each query. Writes min(k, eligible) distances and ids a query, row after row, to distances and
// ids, which the caller has allocated. queries: nq rows of the same width. Returns min(k, eligible).
IDCWH_API std::size_t topk(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                           std::int32_t* distances, std::int64_t* ids, const SearchOptions& options = {});

// Results of which each query has its own number: those of query i are at [limits[i], limits[i + 1]).
struct Hits {
    std::vector<std::int64_t> limits;  // [nq + 1]
    std::vector<std::int32_t> distances;
    std::vector<std::int64_t> ids;
};

// The k nearest codes of each query and, beyond them, every code as near as the k-th.
IDCWH_API Hits topk_ties(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                         const SearchOptions& options = {});

// Every code within radius of each query, the radius included. Above bits, the radius simply takes in everything.
IDCWH_API Hits radius(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
                      const SearchOptions& options = {});

// How many codes lie within radius of each query: counts[nq].
IDCWH_API void count(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
                     std::int64_t* counts, const SearchOptions& options = {});

// How many codes lie at each distance of each query: counts[nq][bits + 1].
IDCWH_API void histogram(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int64_t* counts,
                         const SearchOptions& options = {});

// The whole Hamming ranking: every eligible row for each query, by counting sort. distances and ids: nq x eligible.
IDCWH_API std::size_t rank(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int32_t* distances,
                           std::int64_t* ids, const SearchOptions& options = {});

// True when the padding bits of every row are zero, as the contract wants them.
IDCWH_API bool padding_is_zero(const Codes& codes);

}  // namespace idcwh
