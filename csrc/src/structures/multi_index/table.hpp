// The tables of a multi-index: the cut of the bits into substrings, and the counting sorts that fill the tables.
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

struct Substring {
    unsigned offset, width;
};

// True for codes of more than 64 bits. Their tables form a ring (ring.hpp); those of other codes lead to the primary.
constexpr bool is_ring(unsigned bits) { return bits > 64; }

// Entries of entry_bytes each, sorted by their codes' values of the substring. Equal values are in row order.
struct Table {
    Substring substring;
    Substring rest;  // the bits of the codes that the entries hold; the rest of an entry's bytes is zero
    std::size_t entry_bytes;
    HugeArray<std::uint32_t> begins;  // [2^width + 1]
    HugeArray<std::uint8_t> entries;
    HugeArray<std::uint32_t> rows;  // row numbers of the entries; none if they lead to the primary

    std::uint64_t entry(std::size_t position) const {
        std::uint64_t word;
        std::memcpy(&word, entries.data() + position * entry_bytes, 8);
        return word & low_mask(rest.width);
    }
};

struct Tables {
    unsigned bits = 0;
    std::size_t size = 0;
    std::vector<Table> table;
};

// Returns the substrings of n codes. In a ring their buckets fill about a cache line. Otherwise they have a few codes
// each, and the first is the widest, because the primary is read most.
std::vector<Substring> cut(unsigned bits, std::size_t n);

// The same for tables of at most `memory` bytes. Wide codes get as many substrings as fit, but at least
// `least_substrings`. The bits behind them have no table. Returns none where these do not fit either.
inline constexpr std::size_t least_substrings = 8;
std::vector<Substring> cut(unsigned bits, std::size_t n, std::size_t memory);

// Fills the tables on up to `threads` threads. Throws Error(interrupted).
Tables build_tables(const Codes& codes, const std::vector<Substring>& substrings, unsigned threads,
                    const Interrupt* interrupt);

// Returns a code's value of each substring.
std::vector<std::uint32_t> substring_values(const Tables& tables, const std::uint8_t* code);

}  // namespace idcwh::multi
