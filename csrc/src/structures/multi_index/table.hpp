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

// Returns substrings whose buckets have a few codes each. The first is the widest, because the primary is read most.
std::vector<Substring> cut(unsigned bits, std::size_t n);

// Entries of entry_bytes each, sorted by their codes' values of the substring. Equal values are in row order.
struct Table {
    Substring substring;
    unsigned entry_bits;  // the rest of an entry's bytes is zero
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
    std::vector<Table> table;       // [0]: the primary; its entries are the bits behind substring 0, up to bit 64
    HugeArray<std::uint32_t> rows;  // row numbers of the primary's entries

    // True when substring 0 and an entry of the primary are all of a code.
    bool whole() const { return bits <= 64; }
};

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
