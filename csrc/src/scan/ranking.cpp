// Counting sort of the eligible rows: the first pass computes and counts all distances, the second writes each id to
// its final position.
//
// The second pass runs in id order, so equal distances end up in id order without a comparison. Each thread has a chunk
// of rows with counts of its own. The counts of earlier chunks give the positions at which it writes.
#include "scan/ranking.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <tuple>
#include <vector>

#include "base/interrupt.hpp"
#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "scan/blocks.hpp"
#include "scan/counting_merge.hpp"
#include "scan/plan.hpp"

namespace idcwh {
namespace {

using Counts = std::vector<std::size_t>;
constexpr std::size_t portion = 1 << 16;  // rows between two checks of `stop`, a fraction of a millisecond

// The ids of the eligible rows in ascending order, and the eligible row of each. A row is its position among the
// eligible rows here.
class IdOrder {
public:
    IdOrder(const RowSet& rows, const std::int64_t* ids) {
        if (rows.kind == RowSet::Kind::range) {
            first_ = static_cast<std::int64_t>(rows.begin);
            ids_ = ids ? ids + rows.begin : nullptr;
        } else {
            list_rows(rows);
            if (ids)
                for (std::int64_t& row : stored_) row = ids[row];
            ids_ = stored_.data();
        }
        if (!ids || std::is_sorted(ids_, ids_ + rows.count)) return;
        order_.resize(rows.count);
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return ids_[a] < ids_[b]; });
        std::vector<std::int64_t> sorted(rows.count);
        for (std::size_t i = 0; i < rows.count; ++i) sorted[i] = ids_[order_[i]];
        stored_.swap(sorted);
        ids_ = stored_.data();
    }
    IdOrder(const IdOrder&) = delete;
    IdOrder& operator=(const IdOrder&) = delete;

    const std::size_t* order() const { return order_.empty() ? nullptr : order_.data(); }
    // Calls body(id, row), where id(i) is the i-th id and row(i) its row. Templates, so that the loops stay
    // branch-free.
    template <class Body>
    void with(Body body) const {
        const auto row = [](std::size_t i) { return i; };
        const auto id = [this](std::size_t i) { return ids_[i]; };
        if (!ids_) return body([this](std::size_t i) { return first_ + static_cast<std::int64_t>(i); }, row);
        if (order_.empty()) return body(id, row);
        body(id, [this](std::size_t i) { return order_[i]; });
    }

private:
    void list_rows(const RowSet& rows) {
        stored_.reserve(rows.count);
        if (rows.kind == RowSet::Kind::list) {
            stored_.assign(rows.list, rows.list + rows.count);
            return;
        }
        for (std::size_t at = rows.begin; at < rows.end; at += 64) {
            std::uint64_t bits = rows.bitmap[at / 64];
            if (rows.end - at < 64) bits &= (std::uint64_t{1} << (rows.end - at)) - 1;
            for (; bits; bits &= bits - 1) stored_.push_back(static_cast<std::int64_t>(at) + std::countr_zero(bits));
        }
    }

    std::int64_t first_ = 0;
    const std::int64_t* ids_ = nullptr;  // null: first_, first_ + 1, ...
    std::vector<std::int64_t> stored_;   // the ids, unless they are a range of the caller's array
    std::vector<std::size_t> order_;     // row of each id; empty: rows and ids have the same order
};

struct Ranking {
    const Codes& codes;
    const RowSet& rows;
    IdOrder ids;
    Stop& stop;

    // Writes the distances of the eligible rows among positions [begin, end), without gaps.
    void measure(const std::uint8_t* query, std::size_t begin, std::size_t end, std::uint16_t* out) const {
        const auto& kernels = active_kernels();
        const std::size_t bytes = code_bytes(codes.bits);
        BlockReader reader(codes, rows, begin, end, 2, true);  // a distance above the bits has no count
        std::vector<std::uint16_t> all;
        for (Block block = reader.next(kernels::max_block_rows); block.rows;
             block = reader.next(kernels::max_block_rows)) {
            stop.check();
            if (!block.filter) {
                kernels.distances(block.codes, block.rows, bytes, query, out);
                out += block.rows;
                continue;
            }
            all.resize(kernels::max_block_rows);
            kernels.distances(block.codes, block.rows, bytes, query, all.data());
            for (std::size_t at = 0; at < block.rows; at += 64) {
                std::uint64_t bits = block.filter[at / 64];
                if (block.rows - at < 64) bits &= (std::uint64_t{1} << (block.rows - at)) - 1;
                for (; bits; bits &= bits - 1) *out++ = all[at + static_cast<std::size_t>(std::countr_zero(bits))];
            }
        }
    }

    // Counts the distances of the ids [begin, end) in id order.
    void count(const std::uint16_t* measured, std::size_t begin, std::size_t end, Counts& counts) const {
        counts.assign(static_cast<std::size_t>(codes.bits) + 1, 0);
        if (const std::size_t* order = ids.order()) {
            for (std::size_t at = begin; at < end; ++at) ++counts[measured[order[at]]];
            return;
        }
        // Four sets of counts, because increments of the same count would wait for one another.
        std::vector<std::uint32_t> sets(4 * counts.size());
        std::uint32_t *a = sets.data(), *b = a + counts.size(), *c = b + counts.size(), *d = c + counts.size();
        constexpr std::size_t most = std::size_t{1} << 30;  // so that 32-bit counts cannot overflow
        for (std::size_t at = begin; at < end;) {
            const std::size_t last = std::min(end, at + most);
            for (; at + 4 <= last; at += 4) {
                ++a[measured[at]];
                ++b[measured[at + 1]];
                ++c[measured[at + 2]];
                ++d[measured[at + 3]];
            }
            for (; at < last; ++at) ++a[measured[at]];
            for (std::size_t i = 0; i < sets.size(); ++i) counts[i % counts.size()] += sets[i];
            std::fill(sets.begin(), sets.end(), 0);
        }
    }

    // Writes those of the ids [begin, end) that are among the first k. next[d]: position of the next id at distance d.
    void place(const std::uint16_t* measured, std::size_t begin, std::size_t end, Counts& next, std::size_t k,
               std::int64_t* out) const {
        std::int64_t unused = 0;  // receives the ids beyond k, because a branch would be unpredictable
        ids.with([&](auto id, auto row) {
            for (std::size_t at = begin; at < end;) {
                stop.check();
                for (const std::size_t last = std::min(end, at + portion); at < last; ++at) {
                    const std::size_t to = next[measured[row(at)]]++;
                    *(to < k ? out + to : &unused) = id(at);
                }
            }
        });
    }

    // Replaces the counts of successive chunks by the positions at which each chunk starts to write. Writes the
    // distances.
    void arrange(std::vector<Counts>& chunks, std::size_t k, std::int32_t* distances) const {
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

    // Ranks one query on one thread.
    void whole(const std::uint8_t* query, std::size_t k, std::int32_t* distances, std::int64_t* out) const {
        const auto measured = std::make_unique_for_overwrite<std::uint16_t[]>(rows.count);
        std::vector<Counts> counts(1);
        measure(query, rows.begin, rows.end, measured.get());
        count(measured.get(), 0, rows.count, counts[0]);
        arrange(counts, k, distances);
        place(measured.get(), 0, rows.count, counts[0], k, out);
    }

    // Ranks one query on several threads.
    void in_chunks(const std::uint8_t* query, unsigned threads, std::size_t k, std::int32_t* distances,
                   std::int64_t* out) const {
        const auto measured = std::make_unique_for_overwrite<std::uint16_t[]>(rows.count);
        std::vector<Counts> counts(threads);
        const auto cut = [&](std::size_t size, std::size_t unit, std::size_t chunk) {
            const std::size_t each = (size / unit + threads) / threads * unit;
            return std::min(size, chunk * each);
        };
        std::vector<std::size_t> begins(threads + 1, rows.begin), offsets(threads + 1);
        for (std::size_t i = 0; i < threads; ++i) {
            begins[i + 1] = rows.begin + cut(rows.positions(), 64, i + 1);
            offsets[i + 1] = offsets[i] + rows.eligible(begins[i], begins[i + 1]);
        }
        const auto begin = [&](std::size_t chunk) { return cut(rows.count, 1, chunk); };
        // A range of ids may have rows anywhere, so all distances must be known before any are counted.
        pool::run(
            threads, threads,
            [&](std::size_t i) { measure(query, begins[i], begins[i + 1], measured.get() + offsets[i]); },
            stop.while_waiting());
        pool::run(threads, threads, [&](std::size_t i) { count(measured.get(), begin(i), begin(i + 1), counts[i]); });
        arrange(counts, k, distances);
        pool::run(
            threads, threads, [&](std::size_t i) { place(measured.get(), begin(i), begin(i + 1), counts[i], k, out); },
            stop.while_waiting());
    }
};

// Ranks every query. target(q) returns (k, distances, ids), the outputs of query q.
template <class Target>
void rank_each(const Codes& codes, const RowSet& rows, const std::uint8_t* queries, std::size_t nq,
               const SearchOptions& options, Target target) {
    active_kernels();  // throws on the calling thread if IDCWH_ISA is invalid
    Stop stop(options.interrupt);
    const Ranking ranking{codes, rows, IdOrder(rows, options.ids), stop};
    const std::size_t bytes = code_bytes(codes.bits);
    const unsigned threads = plan(codes, rows, nq, options).threads;
    if (nq < threads) {
        for (std::size_t q = 0; q < nq; ++q) {
            const auto [k, distances, ids] = target(q);
            ranking.in_chunks(queries + q * bytes, threads, k, distances, ids);
        }
        return;
    }
    pool::run(
        nq, threads,
        [&](std::size_t q) {
            const auto [k, distances, ids] = target(q);
            ranking.whole(queries + q * bytes, k, distances, ids);
        },
        stop.while_waiting());
}

}  // namespace

void rank_by_counting(const Codes& codes, const RowSet& rows, const std::uint8_t* queries, std::size_t nq,
                      std::size_t k, std::int32_t* distances, std::int64_t* ids, const SearchOptions& options) {
    rank_each(codes, rows, queries, nq, options,
              [=](std::size_t q) { return std::tuple(k, distances + q * k, ids + q * k); });
}

Hits rank_hits(const Codes& codes, const RowSet& rows, const std::uint8_t* queries,
               const std::vector<std::size_t>& takes, const SearchOptions& options) {
    Hits hits;
    hits.limits.assign(takes.size() + 1, 0);
    for (std::size_t q = 0; q < takes.size(); ++q)
        hits.limits[q + 1] = hits.limits[q] + static_cast<std::int64_t>(takes[q]);
    if (hits.limits.back() == 0) return hits;
    make_room(hits);
    rank_each(codes, rows, queries, takes.size(), options, [&](std::size_t q) {
        return std::tuple(takes[q], hits.distances.data() + hits.limits[q], hits.ids.data() + hits.limits[q]);
    });
    return hits;
}

}  // namespace idcwh
