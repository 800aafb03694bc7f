// topk(), topk_ties() and rank(). A small k uses a pruned scan, a large one a counting sort of all distances. Ties
// beyond a large k are counted first.
#include <algorithm>
#include <atomic>
#include <vector>

#include "base/atomic_bound.hpp"
#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "scan/counting_merge.hpp"
#include "scan/k_best.hpp"
#include "scan/plan.hpp"
#include "scan/ranking.hpp"
#include "scan/scan.hpp"

namespace idcwh {
namespace {

// The k best of one query in one chunk of rows. Its limit uses the k-th distance of the other chunks too.
struct ChunkBest {
    KBest best;
    const std::int64_t* ids;
    std::atomic<std::int32_t>* kth;

    std::int32_t limit() const { return std::min(best.limit(), kth->load(std::memory_order_relaxed)); }
    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
        for (std::size_t i = 0; i < count; ++i) {
            const std::int64_t row = block.number(hits[i].row);
            best.add(ids ? ids[row] : row, hits[i].distance);
        }
        if (best.full()) lower_to(*kth, best.kth());
    }
};

// The k best of every query in every chunk of rows, filled by a scan.
class ChunkedTopK {
public:
    ChunkedTopK(const Codes& codes, const RowSet& rows, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                const SearchOptions& options, Ties ties)
        : codes_(codes),
          rows_(rows),
          queries_(queries),
          k_(k),
          options_(options),
          ties_(ties),
          plan_(idcwh::plan(codes, rows, nq, options)),
          kth_(nq),
          found_(plan_.tasks()) {
        for (auto& value : kth_) value.store(static_cast<std::int32_t>(codes.bits), std::memory_order_relaxed);
    }

    const Plan& plan() const { return plan_; }

    void run(std::size_t index, Stop& stop) {
        const Plan::Task task = plan_.task(index);
        auto& found = found_[index];
        found.reserve(task.queries);
        const Arrival arrival = options_.ids ? Arrival::any : Arrival::ascending;
        for (std::size_t q = 0; q < task.queries; ++q)
            found.push_back({KBest(k_, codes_.bits, arrival, ties_), options_.ids, &kth_[task.first_query + q]});
        scan(active_kernels(), codes_, rows_, task, queries_ + task.first_query * code_bytes(codes_.bits), found.data(),
             stop);
    }

    // Returns pointers to the entries of a query, valid until forget() of its group.
    Parts parts(std::size_t query) const {
        Parts parts(plan_.chunks);
        const std::size_t group = query / plan_.group_queries, place = query % plan_.group_queries;
        for (std::size_t i = 0; i < plan_.chunks; ++i)
            parts[i] = &found_[group * plan_.chunks + i][place].best.entries();
        return parts;
    }

    void forget(std::size_t group) {
        for (std::size_t i = 0; i < plan_.chunks; ++i) std::vector<ChunkBest>().swap(found_[group * plan_.chunks + i]);
    }

private:
    const Codes& codes_;
    const RowSet& rows_;
    const std::uint8_t* queries_;
    std::size_t k_;
    const SearchOptions& options_;
    Ties ties_;
    Plan plan_;
    // Per query, the smallest k-th distance of any chunk so far.
    std::vector<std::atomic<std::int32_t>> kth_;
    std::vector<std::vector<ChunkBest>> found_;
};

void topk_by_scan(const Codes& codes, const RowSet& rows, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                  std::int32_t* distances, std::int64_t* ids, const SearchOptions& options) {
    ChunkedTopK chunked(codes, rows, queries, nq, k, options, Ties::cut);
    const Plan& plan = chunked.plan();
    Stop stop(options.interrupt);
    std::vector<std::atomic<std::size_t>> chunks_left(plan.groups);
    for (auto& value : chunks_left) value.store(plan.chunks);
    pool::run(
        plan.tasks(), plan.threads,
        [&](std::size_t index) {
            chunked.run(index, stop);
            const Plan::Task task = plan.task(index);
            if (chunks_left[task.group].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
            // The last chunk of a group merges the results of the group while other groups are still searched.
            for (std::size_t q = task.first_query; q < task.first_query + task.queries; ++q)
                sort_entries(chunked.parts(q), codes.bits, !options.ids, k, distances + q * k, ids + q * k);
            chunked.forget(task.group);
        },
        stop.while_waiting());
}

bool counting_pays(std::size_t k, const RowSet& rows) { return k > rows.count / counting_share && rows.count > 256; }

}  // namespace

std::size_t topk(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                 std::int32_t* distances, std::int64_t* ids, const SearchOptions& options) {
    const RowSet rows = checked_rows(codes, queries, nq, options);
    k = std::min(k, rows.count);
    if (k == 0 || nq == 0) return k;
    check_results(distances, ids, nq, k);
    if (counting_pays(k, rows))
        rank_by_counting(codes, rows, queries, nq, k, distances, ids, options);
    else
        topk_by_scan(codes, rows, queries, nq, k, distances, ids, options);
    return k;
}

std::size_t rank(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int32_t* distances,
                 std::int64_t* ids, const SearchOptions& options) {
    const RowSet rows = checked_rows(codes, queries, nq, options);
    if (rows.count == 0 || nq == 0) return rows.count;
    check_results(distances, ids, nq, rows.count);
    rank_by_counting(codes, rows, queries, nq, rows.count, distances, ids, options);
    return rows.count;
}

Hits topk_ties(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
               const SearchOptions& options) {
    const RowSet rows = checked_rows(codes, queries, nq, options);
    k = std::min(k, rows.count);
    std::vector<std::size_t> takes(nq);
    if (k == 0 || nq == 0) return rank_hits(codes, rows, queries, takes, options);
    if (counting_pays(k, rows)) {
        const std::size_t width = static_cast<std::size_t>(codes.bits) + 1;
        std::vector<std::int64_t> counts(product(nq, width));
        histogram(codes, queries, nq, counts.data(), options);
        for (std::size_t q = 0; q < nq; ++q)
            for (const auto* count = &counts[q * width]; takes[q] < k; ++count)
                takes[q] += static_cast<std::size_t>(*count);
        return rank_hits(codes, rows, queries, takes, options);
    }
    ChunkedTopK chunked(codes, rows, queries, nq, k, options, Ties::keep);
    const Plan& plan = chunked.plan();
    Stop stop(options.interrupt);
    pool::run(plan.tasks(), plan.threads, [&](std::size_t index) { chunked.run(index, stop); }, stop.while_waiting());
    for (std::size_t q = 0; q < nq; ++q) takes[q] = count_with_ties(chunked.parts(q), codes.bits, k);
    return collect(takes, [&](std::size_t q) { return chunked.parts(q); }, codes.bits, !options.ids, plan.threads);
}

}  // namespace idcwh
