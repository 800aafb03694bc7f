// One thread's part of the pass over pairs: the counts of a few queries at a time.
#pragma once

#include <idcwh/metrics.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/interrupt.hpp"
#include "metrics/labels.hpp"

namespace idcwh::metrics {

// The database as the pass reads it. Where codes repeat, only the different ones are compared.
struct Database {
    Codes codes;                               // the different codes, or all of them
    std::size_t rows;                          // items in all
    std::vector<std::uint32_t> group;          // [rows] the code of each item; empty: its own row
    std::vector<std::uint32_t> group_size;     // [codes.size] items with that code; empty: 1 each
    std::vector<std::uint8_t> distinct_codes;  // what codes views, where they are not the caller's

    // ranked: as PairOptions says.
    Database(const Codes& all, bool ranked);
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;
};

// Queries of one label, and the rows of the result that take their counts.
inline constexpr std::size_t tile_queries = 4;
struct Tile {
    std::uint32_t label;
    std::size_t size;
    const std::uint8_t* query[tile_queries];
    std::size_t row[tile_queries];
};

class Pass {
public:
    Pass(const Database& database, const Relevance& relevance, const PairOptions& options, PairCounts& result,
         Stop& stop);

    void count(const Tile& tile);

private:
    struct Found {  // the relevant items, in row order
        std::vector<std::uint16_t> distance;
        std::vector<std::uint64_t> earlier;  // items at the same distance, and (<< 32) relevant ones
    };
    struct Nearer {  // than a distance: all items, and the relevant ones
        std::uint32_t items, hits;
    };

    void measure(const std::uint8_t* query, std::size_t begin, std::size_t rows, std::uint16_t* out) const;
    void count_codes(const Tile& tile, const RowList& relevant);
    void count_rows(const Tile& tile, const RowList& relevant);
    void sum_ranked(std::size_t t, std::size_t row);

    const Database& database_;
    const Relevance& relevance_;
    const PairOptions& options_;
    PairCounts& result_;
    Stop& stop_;
    const std::size_t bytes_, distances_;
    // For each query of a tile, one after the other:
    std::vector<std::uint16_t> measured_;            // [block_stride] distances of the rows of a block
    std::vector<std::uint32_t> positions_;           // [block_stride] the place of each among those at its distance
    std::vector<std::uint32_t> items_, hits_;        // [distances] counts so far
    std::vector<std::uint16_t> distances_of_codes_;  // [codes] where every code is measured at once
    std::vector<Found> found_;
    // Of the tile as a whole, or of the query at hand:
    std::vector<std::uint32_t> relevant_scratch_;
    std::vector<std::uint32_t> hits_of_code_, hit_codes_;  // relevant items that have a code; codes that have some
    std::vector<Nearer> nearer_;
    std::vector<std::uint32_t> cut_of_rank_;
};

}  // namespace idcwh::metrics
