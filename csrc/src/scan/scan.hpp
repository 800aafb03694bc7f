// scan(): compares blocks of rows, in row order, with a group of queries. Top-k, radius search and counts use it.
//
// A Sink receives the hits of one query:
// - limit() returns the largest distance that is still a hit. Below 0 there are none.
// - absorb(hits, count, block) receives the hits of a block. With only_counts, hits may be null.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "base/interrupt.hpp"
#include "cpu/kernels/kernels.hpp"
#include "scan/blocks.hpp"
#include "scan/plan.hpp"

namespace idcwh {

// Returns the number of queries from which converting a block to planes is faster than separate scans. Chosen on Zen 3;
// benchmarks/search.py --queries measures both sides.
inline std::size_t min_batch(std::size_t bytes) { return bytes <= 4 ? 4 : 8; }

// Eighths of eligible rows from which a block of a bitmap is read in place. Copying a row takes as long as comparing
// four, but a batch copies it once and compares it per query. Measured by csrc/bench/scan.cpp.
inline constexpr unsigned gather_below_single = 2, gather_below_batch = 6;

// Returns the rows per block. For several queries, the data that the inner loop reads again per query must fit the
// first-level cache. A single query reads nothing again, so larger blocks save overhead.
inline std::size_t block_rows(const kernels::Kernels& kernels, std::size_t bytes, bool batch, std::size_t nq) {
    const std::size_t budget = batch ? 16384 / (kernels.planes_per_byte * bytes) : (nq == 1 ? 262144 : 32768) / bytes;
    const std::size_t unit = batch ? kernels.group_rows : 64;
    return std::clamp(budget / unit * unit, unit, kernels::max_block_rows);
}

// Uninitialised memory, aligned to cache lines, because a vector that crosses two lines is loaded at half the speed.
class AlignedBytes {
public:
    explicit AlignedBytes(std::size_t size)
        : data_(static_cast<std::uint8_t*>(::operator new(std::max<std::size_t>(size, 1), std::align_val_t{64}))) {}
    ~AlignedBytes() { ::operator delete(data_, std::align_val_t{64}); }
    AlignedBytes(const AlignedBytes&) = delete;
    AlignedBytes& operator=(const AlignedBytes&) = delete;
    std::uint8_t* data() { return data_; }

private:
    std::uint8_t* data_;
};

template <class Sink>
inline constexpr bool only_counts = requires { requires Sink::only_counts; };

// Scans the rows of a task for its queries. `queries` and `sinks` begin with the first query of the task.
template <class Sink>
void scan(const kernels::Kernels& kernels, const Codes& codes, const RowSet& rows, const Plan::Task& task,
          const std::uint8_t* queries, Sink* sinks, Stop& stop) {
    using kernels::Hit;
    using kernels::tile_queries;
    const std::size_t bytes = code_bytes(codes.bits), nq = task.queries;
    const bool batch = kernels.spread && nq >= min_batch(bytes);
    const std::size_t whole_block = block_rows(kernels, bytes, batch, nq);
    BlockReader reader(codes, rows, task.begin, task.end, batch ? gather_below_batch : gather_below_single);
    AlignedBytes hit_memory((batch ? tile_queries : 1) * whole_block * sizeof(Hit));
    Hit* const hits = reinterpret_cast<Hit*>(hit_memory.data());
    AlignedBytes planes(batch ? kernels.planes_size(whole_block, bytes) : 0);
    AlignedBytes tables(batch ? nq * kernels.table_size(bytes) : 0);
    const auto table = [&](std::size_t q) { return tables.data() + q * kernels.table_size(bytes); };
    if (batch)
        for (std::size_t q = 0; q < nq; ++q) kernels.prepare(queries + q * bytes, bytes, table(q));
    const auto absorb = [&](std::size_t q, Hit* found, std::size_t count, const Block& block) {
        if (count && block.filter) count = keep_eligible(found, count, block.filter);
        if (count) sinks[q].absorb(found, count, block);
    };

    std::vector<std::size_t> tiled;  // queries that scan this block in tiles
    // Blocks start small: in the first, all rows are hits, and it already gives a useful limit for the second.
    std::size_t next_rows = std::min<std::size_t>(64, whole_block);
    for (Block block = reader.next(next_rows); block.rows; block = reader.next(next_rows)) {
        stop.check();
        next_rows = std::min(2 * next_rows, whole_block);
        tiled.clear();
        bool wanted = false;
        for (std::size_t q = 0; q < nq; ++q) {
            const std::int32_t limit = sinks[q].limit();
            if (limit < 0) continue;
            wanted = true;
            if (batch && limit <= kernels::tile_max_limit) {
                tiled.push_back(q);
                continue;
            }
            const std::size_t count = kernels.scan(block.codes, block.rows, bytes, queries + q * bytes,
                                                   static_cast<std::uint32_t>(limit), hits);
            absorb(q, hits, count, block);
        }
        if (!wanted) return;
        if (tiled.empty()) continue;
        kernels.spread(block.codes, block.rows, bytes, planes.data());
        for (std::size_t first = 0; first < tiled.size(); first += tile_queries) {
            kernels::TileQuery tile[tile_queries];
            const std::size_t used = std::min(tile_queries, tiled.size() - first);
            for (std::size_t i = 0; i < tile_queries; ++i) {
                // An incomplete tile repeats its last query, with a limit that yields no hits.
                const std::size_t q = tiled[first + std::min(i, used - 1)];
                Hit* const out = only_counts<Sink> && !block.filter ? nullptr : hits + i * whole_block;
                tile[i] = {queries + q * bytes, table(q), i < used ? sinks[q].limit() : -1, out, 0};
            }
            kernels.scan_tile(block.codes, planes.data(), block.rows, bytes, tile);
            for (std::size_t i = 0; i < used; ++i) absorb(tiled[first + i], tile[i].hits, tile[i].count, block);
        }
    }
}

}  // namespace idcwh
