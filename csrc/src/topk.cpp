// The k nearest codes of each query: a pruned scan for small k, a counting sort of all distances for large.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "dispatch.hpp"
#include "plan.hpp"
#include "pool.hpp"
#include "ranking.hpp"
#include "scan.hpp"
#include "selector.hpp"

namespace idcwh {
namespace {

constexpr std::size_t counting_share = 24;  // more than 1 row in 24 wanted: measure all, then count

// A selector whose limit also knows what the other chunks of rows have found.
struct SharedSelector {
    Selector selector;
    std::atomic<std::int32_t>* kth;

    std::int32_t limit() const { return std::min(selector.limit(), kth->load(std::memory_order_relaxed)); }
    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
        selector.absorb(hits, count, block);
        if (!selector.full()) return;
        std::int32_t known = kth->load(std::memory_order_relaxed);
        while (selector.kth() < known &&
               !kth->compare_exchange_weak(known, selector.kth(), std::memory_order_relaxed)) {
        }
    }
};

void topk_by_scan(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                  std::int32_t* distances, std::int64_t* ids, const SearchOptions& options) {
    const auto& kernels = active_kernels();
    const std::size_t bytes = code_bytes(codes.bits);
    const Plan plan = idcwh::plan(codes, nq, options);
    // Per query the smallest k-th distance that any chunk has found so far; more than k codes may be at it.
    std::vector<std::atomic<std::int32_t>> kth(nq);
    for (auto& value : kth) value.store(static_cast<std::int32_t>(codes.bits), std::memory_order_relaxed);
    std::vector<std::vector<SharedSelector>> found(plan.groups * plan.chunks);
    std::vector<std::atomic<std::size_t>> open(plan.groups);
    for (auto& value : open) value.store(plan.chunks);

    pool::run(found.size(), plan.threads, [&](std::size_t task) {
        const std::size_t group = task / plan.chunks, chunk = task % plan.chunks;
        const std::size_t first = group * plan.group_queries, count = std::min(plan.group_queries, nq - first);
        auto& selectors = found[task];
        selectors.reserve(count);
        for (std::size_t q = 0; q < count; ++q)
            selectors.push_back({Selector(k, codes.bits, options.ids), &kth[first + q]});
        const std::size_t begin = chunk * plan.chunk_rows, end = std::min(codes.size, begin + plan.chunk_rows);
        BlockReader reader(codes, options.rows.bytes, begin, end);
        scan(kernels, queries + first * bytes, bytes, reader, selectors.data(), count);

        if (open[group].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
        // The last chunk of a group puts the group's results together, while others still search.
        std::vector<Selector*> parts(plan.chunks);
        for (std::size_t q = 0; q < count; ++q) {
            for (std::size_t i = 0; i < plan.chunks; ++i) parts[i] = &found[group * plan.chunks + i][q].selector;
            const std::size_t at = (first + q) * k;
            Selector::finish(parts.data(), parts.size(), distances + at, ids + at);
        }
        for (std::size_t i = 0; i < plan.chunks; ++i)
            std::vector<SharedSelector>().swap(found[group * plan.chunks + i]);
    });
}

}  // namespace

std::size_t topk(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                 std::int32_t* distances, std::int64_t* ids, const SearchOptions& options) {
    check(codes, queries, nq, options);
    const std::size_t rows = eligible(codes, options);
    k = std::min(k, rows);
    if (k == 0 || nq == 0) return k;
    if (!distances || !ids)
        throw Error(ErrorCode::invalid_argument, "distances and ids must have room for the results, not be null");
    if (k > rows / counting_share && rows > 256)
        rank_by_counting(codes, queries, nq, k, distances, ids, options);
    else
        topk_by_scan(codes, queries, nq, k, distances, ids, options);
    return k;
}

std::size_t rank(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int32_t* distances,
                 std::int64_t* ids, const SearchOptions& options) {
    check(codes, queries, nq, options);
    const std::size_t rows = eligible(codes, options);
    if (rows == 0 || nq == 0) return rows;
    if (!distances || !ids)
        throw Error(ErrorCode::invalid_argument, "distances and ids must have room for the results, not be null");
    rank_by_counting(codes, queries, nq, rows, distances, ids, options);
    return rows;
}

}  // namespace idcwh
