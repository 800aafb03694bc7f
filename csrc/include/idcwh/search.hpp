// Exact Hamming search over packed binary codes in the caller's memory.
//
// Codes: a code of b bits has ceil(b / 8) bytes. Rows follow one another without gaps. Bit i is in byte i / 8 at
// position i % 8, least significant first. The padding bits of the last byte are zero. Searches copy nothing, so a
// memory-mapped file can be searched directly. index.hpp has an index whose codes can be added and removed.
//
// Results: ordered by (distance, id), ascending. They do not depend on the instruction set, the number of threads or
// the number of queries per call.
//
// Errors: Error(invalid_argument) for invalid arguments, Error(interrupted), std::bad_alloc.
//
// Threads: any number may call these functions at once, as long as no thread changes the memory that is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "error.hpp"
#include "export.hpp"

namespace idcwh {

inline constexpr unsigned max_bits = 65535;  // kernels store a distance in 16 bits
inline constexpr unsigned max_threads = 1024;

constexpr std::size_t code_bytes(unsigned bits) { return (static_cast<std::size_t>(bits) + 7) / 8; }

// A view of codes in the caller's memory: `size` rows of code_bytes(bits) bytes, at any address.
struct Codes {
    const std::uint8_t* data = nullptr;
    std::size_t size = 0;
    unsigned bits = 0;
};

// The rows that a search may return: a view of the caller's memory. A search does not read rows outside the range or
// the list, nor blocks of rows without a bit in the bitmap.
struct Rows {
    enum class Kind { all, range, list, bitmap, bytes };
    Kind kind = Kind::all;
    std::size_t begin = 0, end = 0;         // range: rows [begin, end); an end above Codes::size means size
    const std::int64_t* list = nullptr;     // list: rows, ascending, unique, all below Codes::size
    std::size_t count = 0;                  // list: its length
    const std::uint64_t* bitmap = nullptr;  // bitmap: bit r % 64 of word r / 64 for row r, lowest bit first
    const std::uint8_t* bytes = nullptr;    // bytes: [size], nonzero for the rows to search

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

// A way to stop a long search. It calls `requested` every few milliseconds, on the thread that started it. If the
// result is true, the search ends with Error(interrupted).
struct Interrupt {
    bool (*requested)(void* context) = nullptr;
    void* context = nullptr;
};

struct SearchOptions {
    const std::int64_t* ids = nullptr;  // [size], unique, in any order; null: the id of a row is its row number
    Rows rows;
    unsigned threads = 0;  // at most max_threads; 0: threads() of threads.hpp
    const Interrupt* interrupt = nullptr;
};

// Returns the number of rows that a search may return.
IDCWH_API std::size_t eligible(const Codes& codes, const SearchOptions& options = {});

// Writes the k nearest codes of each query and returns kept = min(k, eligible). queries: nq rows like those of `codes`.
// distances, ids: the caller's arrays [nq][kept].
IDCWH_API std::size_t topk(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                           std::int32_t* distances, std::int64_t* ids, const SearchOptions& options = {});

// Results whose number varies per query. The results of query i are at [limits[i], limits[i + 1]).
struct Hits {
    std::vector<std::int64_t> limits;  // [nq + 1]
    std::vector<std::int32_t> distances;
    std::vector<std::int64_t> ids;
};

// Returns the k nearest codes of each query, and every other code at the distance of the k-th.
IDCWH_API Hits topk_ties(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                         const SearchOptions& options = {});

// Returns every code at a distance of at most `radius`. A radius above `bits` returns every eligible row.
IDCWH_API Hits radius(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
                      const SearchOptions& options = {});

// Counts the codes at a distance of at most `radius`: counts[nq].
IDCWH_API void count(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
                     std::int64_t* counts, const SearchOptions& options = {});

// Counts the codes at each distance: counts[nq][bits + 1].
IDCWH_API void histogram(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int64_t* counts,
                         const SearchOptions& options = {});

// Writes the whole Hamming ranking and returns eligible. distances, ids: the caller's arrays [nq][eligible].
IDCWH_API std::size_t rank(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int32_t* distances,
                           std::int64_t* ids, const SearchOptions& options = {});

// Returns true if the padding bits of every row are zero, as they must be. Searches of memory check those of the
// queries, histogram() and rank() also those of the codes. Indexes, databases, joins and metrics check all codes.
IDCWH_API bool padding_is_zero(const Codes& codes);

}  // namespace idcwh
