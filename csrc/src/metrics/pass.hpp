// Pass: the work of one thread in count_pairs(). It counts the pairs of a tile of queries at a time.
#pragma once

#include <idcwh/metrics.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/interrupt.hpp"
#include "metrics/labels.hpp"

namespace idcwh::metrics {

// The database as a Pass reads it. If many codes repeat, only the distinct ones are compared.
struct Database {
    Codes codes;                               // the distinct codes, or all codes
    std::size_t rows;                          // number of items
    std::vector<std::uint32_t> group;          // [rows], index of each item's code; empty: its row
    std::vector<std::uint32_t> group_size;     // [codes.size], items per code; empty: 1 each
    std::vector<std::uint8_t> distinct_codes;  // memory of the distinct codes; empty: `codes` is the caller's

    // ranked: as in PairOptions.
    Database(const Codes& all, bool ranked);
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;
};

// Queries of one label, and the rows of the result for their counts.
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
    struct Found {  // the relevant items of a query, in row order
        std::vector<std::uint16_t> distance;
        std::vector<std::uint64_t> earlier;  // earlier rows at the same distance, and (<< 32) relevant ones
    };
    struct Nearer {  // numbers of items and of relevant items below a distance
        std::uint32_t items, hits;
    };
    struct Sum {  // precision and number of the relevant items between two cuts
        double precision = 0;
        std::int64_t hits = 0;
    };

    void measure(const std::uint8_t* query, std::size_t begin, std::size_t rows, std::uint16_t* out) const;
    void count_codes(const Tile& tile, const RowList& relevant);
    void count_rows(const Tile& tile, const RowList& relevant);
    void count_nearer(std::size_t t);
    void sum_ranked(std::size_t t, std::size_t row);
    void sum_ranked_others(std::size_t t, std::size_t row, const RowList& relevant);

    const Database& database_;
    const Relevance& relevance_;
    const PairOptions& options_;
    PairCounts& result_;
    Stop& stop_;
    const std::size_t bytes_, distances_;
    // Per query of a tile:
    std::vector<std::uint16_t> measured_;            // [tile][block_stride], distances of the rows of a block
    std::vector<std::uint32_t> positions_;           // [tile][block_stride], earlier rows at the distance of each row
    std::vector<std::uint32_t> items_, hits_;        // [tile][distances], counts so far
    std::vector<std::uint16_t> distances_of_codes_;  // [tile][codes], if every code is compared once
    std::vector<Found> found_;                       // [tile]
    // Scratch memory of a tile or a query:
    std::vector<std::uint32_t> relevant_scratch_;
    std::vector<std::uint32_t> hits_of_code_;  // [codes], relevant items with that code
    std::vector<std::uint32_t> hit_codes_;     // codes with at least one relevant item
    std::vector<Nearer> nearer_;               // [distances]
    std::vector<std::uint32_t> cut_of_rank_;   // first cut that includes a rank
};

}  // namespace idcwh::metrics
