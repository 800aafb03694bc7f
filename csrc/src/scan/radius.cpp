// radius(). Few hits are collected by a scan. Many hits are counted first, then written by the counting sort.
#include <algorithm>
#include <vector>

#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "scan/counting_merge.hpp"
#include "scan/plan.hpp"
#include "scan/ranking.hpp"
#include "scan/scan.hpp"

namespace idcwh {
namespace {

constexpr std::size_t least_rows = 1 << 16;  // below, all hits of a query fit the second-level cache
constexpr std::size_t sample_rows = 1 << 8, sample_queries = 16;

// A sink for scan() that collects all hits within the radius.
struct Collector {
    std::int32_t radius;
    const std::int64_t* row_ids;
    std::vector<Entry> entries;

    std::int32_t limit() const { return radius; }
    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
        const std::size_t before = entries.size();
        entries.resize(before + count);
        Entry* to = entries.data() + before;
        for (std::size_t i = 0; i < count; ++i) {
            const std::int64_t row = block.number(hits[i].row);
            *to++ = {row_ids ? row_ids[row] : row, hits[i].distance};
        }
    }
};

// Estimates from a sample of rows and queries whether the hits are many. An error costs time, but results are the same.
bool many_hits(const Codes& codes, const RowSet& rows, const std::uint8_t* queries, std::size_t nq,
               std::uint16_t radius) {
    if (rows.count < least_rows) return false;
    const std::size_t bytes = code_bytes(codes.bits), step = rows.positions() / sample_rows;
    std::vector<std::uint8_t> sample(sample_rows * bytes);
    for (std::size_t i = 0; i < sample_rows; ++i) {
        const std::size_t position = rows.begin + i * step;
        const std::size_t row = rows.list ? static_cast<std::size_t>(rows.list[position]) : position;
        std::copy_n(codes.data + row * bytes, bytes, sample.data() + i * bytes);
    }
    std::uint16_t distances[sample_rows];
    std::size_t hits = 0, measured = 0;
    for (std::size_t q = 0; q < nq; q += (nq + sample_queries - 1) / sample_queries, measured += sample_rows) {
        active_kernels().distances(sample.data(), sample_rows, bytes, queries + q * bytes, distances);
        for (const std::uint16_t distance : distances) hits += distance <= radius;
    }
    return hits > measured / counting_share;
}

}  // namespace

Hits radius(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
            const SearchOptions& options) {
    const RowSet rows = checked_rows(codes, queries, nq, options);
    const auto& kernels = active_kernels();
    const unsigned within = std::min(radius, codes.bits);
    if (many_hits(codes, rows, queries, nq, static_cast<std::uint16_t>(within))) {
        std::vector<std::int64_t> counts(nq);
        count(codes, queries, nq, within, counts.data(), options);
        return rank_hits(codes, rows, queries, std::vector<std::size_t>(counts.begin(), counts.end()), options);
    }
    const Plan plan = idcwh::plan(codes, rows, nq, options);
    Stop stop(options.interrupt);
    std::vector<std::vector<Collector>> found(plan.tasks());
    pool::run(
        plan.tasks(), plan.threads,
        [&](std::size_t index) {
            const Plan::Task task = plan.task(index);
            found[index].assign(task.queries, {static_cast<std::int32_t>(within), options.ids, {}});
            scan(kernels, codes, rows, task, queries + task.first_query * code_bytes(codes.bits), found[index].data(),
                 stop);
        },
        stop.while_waiting());

    const auto parts = [&](std::size_t q) {
        Parts list(plan.chunks);
        for (std::size_t i = 0; i < plan.chunks; ++i)
            list[i] = &found[q / plan.group_queries * plan.chunks + i][q % plan.group_queries].entries;
        return list;
    };
    std::vector<std::size_t> takes(nq);
    for (std::size_t q = 0; q < nq; ++q)
        for (const auto* part : parts(q)) takes[q] += part->size();
    return collect(takes, parts, codes.bits, !options.ids, plan.threads);
}

}  // namespace idcwh
