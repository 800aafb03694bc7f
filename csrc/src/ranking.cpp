// Two passes over the rows: measure every distance and count, then put each row where its distance and its turn say.
//
// Rows are visited in id order, so that equal distances come out in id order with no comparison. With threads, the rows
// go in chunks, each with counts of its own: the chunks before it say where it writes.
#include "ranking.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "blocks.hpp"
#include "dispatch.hpp"
#include "plan.hpp"
#include "pool.hpp"

namespace idcwh {
namespace {

using Counts = std::vector<std::size_t>;

// Row numbers in ascending order of their ids; empty when that is the order of the rows.
std::vector<std::size_t> id_order(const Codes& codes, const std::int64_t* ids) {
    if (!ids || std::is_sorted(ids, ids + codes.size)) return {};
    std::vector<std::size_t> order(codes.size);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return ids[a] < ids[b]; });
    return order;
}

struct Ranking {
    const Codes& codes;
    const SearchOptions& options;
    std::size_t k;
    std::vector<std::size_t> order;

    std::size_t row(std::size_t position) const { return order.empty() ? position : order[position]; }
    bool eligible(std::size_t row) const { return !options.rows.bytes || options.rows.bytes[row]; }

    // Distances of the rows [begin, end), whatever the mask says.
    void measure(const std::uint8_t* query, std::size_t begin, std::size_t end, std::uint16_t* out) const {
        const std::size_t bytes = code_bytes(codes.bits);
        for (std::size_t at = begin; at < end; at += kernels::max_block_rows)
            active_kernels().distances(codes.data + at * bytes, std::min(kernels::max_block_rows, end - at), bytes,
                                       query, out + at);
    }

    // Counts the distances of the positions [begin, end) of the id order.
    void count(const std::uint16_t* measured, std::size_t begin, std::size_t end, Counts& counts) const {
        counts.assign(static_cast<std::size_t>(codes.bits) + 1, 0);
        if (order.empty() && !options.rows.bytes) {
            // Four sets of counts: equal distances in a row would otherwise wait for one another.
            std::vector<std::uint32_t> sets(4 * counts.size());
            std::uint32_t *a = sets.data(), *b = a + counts.size(), *c = b + counts.size(), *d = c + counts.size();
            constexpr std::size_t portion = std::size_t{1} << 30;  // that many fit 32-bit counts
            for (std::size_t at = begin; at < end;) {
                const std::size_t stop = std::min(end, at + portion);
                for (; at + 4 <= stop; at += 4) {
                    ++a[measured[at]];
                    ++b[measured[at + 1]];
                    ++c[measured[at + 2]];
                    ++d[measured[at + 3]];
                }
                for (; at < stop; ++at) ++a[measured[at]];
                for (std::size_t i = 0; i < sets.size(); ++i) counts[i % counts.size()] += sets[i];
                std::fill(sets.begin(), sets.end(), 0);
            }
            return;
        }
        for (std::size_t position = begin; position < end; ++position) {
            const std::size_t at = row(position);
            if (eligible(at)) ++counts[measured[at]];
        }
    }

    // Writes the ids of the positions [begin, end) that belong among the first k; next: where each distance's next one
    // goes.
    void place(const std::uint16_t* measured, std::size_t begin, std::size_t end, Counts& next,
               std::int64_t* ids) const {
        for (std::size_t position = begin; position < end; ++position) {
            const std::size_t at = row(position);
            if (!eligible(at)) continue;
            const std::size_t to = next[measured[at]]++;
            if (to < k) ids[to] = options.ids ? options.ids[at] : static_cast<std::int64_t>(at);
        }
    }

    // Turns the counts of successive chunks into where each chunk begins to write, and writes the distances.
    void arrange(std::vector<Counts>& chunks, std::int32_t* distances) const {
        std::size_t at = 0;
        for (std::size_t d = 0; d <= codes.bits; ++d) {
            const std::size_t begin = at;
            for (Counts& counts : chunks) {
                const std::size_t count = counts[d];
                counts[d] = at;
                at += count;
            }
            if (begin < k) std::fill(distances + begin, distances + std::min(at, k), static_cast<std::int32_t>(d));
        }
    }

    // One query on one thread.
    void whole(const std::uint8_t* query, std::int32_t* distances, std::int64_t* ids) const {
        std::vector<std::uint16_t> measured(codes.size);
        std::vector<Counts> counts(1);
        measure(query, 0, codes.size, measured.data());
        count(measured.data(), 0, codes.size, counts[0]);
        arrange(counts, distances);
        place(measured.data(), 0, codes.size, counts[0], ids);
    }

    // One query on several threads.
    void in_chunks(const std::uint8_t* query, unsigned threads, std::int32_t* distances, std::int64_t* ids) const {
        std::vector<std::uint16_t> measured(codes.size);
        std::vector<Counts> counts(threads);
        const std::size_t rows = (codes.size + threads - 1) / threads;
        const auto begin = [&](std::size_t chunk) { return std::min(codes.size, chunk * rows); };
        // Positions of the id order lie anywhere among the rows: all must be measured before any is counted.
        pool::run(threads, threads, [&](std::size_t i) { measure(query, begin(i), begin(i + 1), measured.data()); });
        pool::run(threads, threads, [&](std::size_t i) { count(measured.data(), begin(i), begin(i + 1), counts[i]); });
        arrange(counts, distances);
        pool::run(threads, threads,
                  [&](std::size_t i) { place(measured.data(), begin(i), begin(i + 1), counts[i], ids); });
    }
};

}  // namespace

void rank_by_counting(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                      std::int32_t* distances, std::int64_t* ids, const SearchOptions& options) {
    const Ranking ranking{codes, options, k, id_order(codes, options.ids)};
    const std::size_t bytes = code_bytes(codes.bits);
    const unsigned threads = plan(codes, nq, options).threads;
    active_kernels();  // a wrong IDCWH_ISA is reported here, by the caller's thread
    if (nq < threads) {
        for (std::size_t q = 0; q < nq; ++q)
            ranking.in_chunks(queries + q * bytes, threads, distances + q * k, ids + q * k);
        return;
    }
    pool::run(nq, threads, [&](std::size_t q) { ranking.whole(queries + q * bytes, distances + q * k, ids + q * k); });
}

}  // namespace idcwh
