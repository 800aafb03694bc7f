// The tables of a multi-index: how the bits are cut into chunks, and the counting sorts that fill the tables.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/huge_array.hpp"
#include "structures/multi_index/bits.hpp"

namespace idcwh::multi {

inline constexpr std::size_t load_slack = 64;  // readable bytes behind the entries, for loads wider than an entry

struct Chunk {
    unsigned offset, width;
};

// Chunks as wide as make buckets of a few codes; the first is the widest, for its table's buckets are read most.
std::vector<Chunk> cut(unsigned bits, std::size_t n);

// Entries of entry_bytes each, sorted by their codes' value of the chunk, equal values in row order.
struct Table {
    Chunk chunk;
    unsigned entry_bits;  // of an entry, the rest of its bytes is zero
    std::size_t entry_bytes;
    HugeArray<std::uint32_t> begins;  // [2^width + 1]
    HugeArray<std::uint8_t> entries;

    std::uint64_t entry(std::size_t position) const {
        std::uint64_t word;
        std::memcpy(&word, entries.data() + position * entry_bytes, 8);
        return word & low_mask(entry_bits);
    }
};

struct Tables {
    unsigned bits = 0;
    std::size_t size = 0;
    std::vector<Table> table;       // [0]: the primary; its entries are the bits behind chunk 0, up to bit 64
    HugeArray<std::uint32_t> rows;  // of the primary's entries

    // True when chunk 0 and an entry of the primary are all of a code.
    bool whole() const { return bits <= 64; }
};

// The same within so many bytes of tables: wide codes have as many chunks as fit, but at least `least_chunks`, and the
// bits behind them no table. None where these do not fit either.
inline constexpr std::size_t least_chunks = 8;
std::vector<Chunk> cut(unsigned bits, std::size_t n, std::size_t memory);

// Fills the tables on up to `threads` threads. Throws Error(interrupted).
Tables build_tables(const Codes& codes, const std::vector<Chunk>& chunks, unsigned threads, const Interrupt* interrupt);

// A code's value of each chunk.
std::vector<std::uint32_t> chunk_values(const Tables& tables, const std::uint8_t* code);

}  // namespace idcwh::multi
