// Every code within a radius of each query, and how many rows a mask lets through.
#include <algorithm>
#include <numeric>

#include "dispatch.hpp"
#include "plan.hpp"
#include "pool.hpp"
#include "scan.hpp"
#include "selector.hpp"

namespace idcwh {
namespace {

struct Collector {
    std::int32_t radius;
    const std::int64_t* row_ids;
    std::vector<Entry> entries;

    std::int32_t limit() const { return radius; }
    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t row = block.number(hits[i].row);
            entries.push_back({row_ids ? row_ids[row] : static_cast<std::int64_t>(row), hits[i].distance});
        }
    }
};

}  // namespace

Hits radius(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
                    const SearchOptions& options) {
    check(codes, queries, nq, options);
    const auto& kernels = active_kernels();
    const std::size_t bytes = code_bytes(codes.bits);
    const Plan plan = idcwh::plan(codes, nq, options);
    std::vector<std::vector<Collector>> found(plan.groups * plan.chunks);
    pool::run(found.size(), plan.threads, [&](std::size_t task) {
        const std::size_t group = task / plan.chunks, chunk = task % plan.chunks;
        const std::size_t first = group * plan.group_queries, count = std::min(plan.group_queries, nq - first);
        found[task].assign(count, {static_cast<std::int32_t>(std::min(radius, codes.bits)), options.ids, {}});
        const std::size_t begin = chunk * plan.chunk_rows, end = std::min(codes.size, begin + plan.chunk_rows);
        BlockReader reader(codes, options.rows.bytes, begin, end);
        scan(kernels, queries + first * bytes, bytes, reader, found[task].data(), count);
    });

    const auto parts = [&](std::size_t q) {
        std::vector<const std::vector<Entry>*> list(plan.chunks);
        for (std::size_t i = 0; i < plan.chunks; ++i)
            list[i] = &found[q / plan.group_queries * plan.chunks + i][q % plan.group_queries].entries;
        return list;
    };
    Hits result;
    result.limits.assign(nq + 1, 0);
    for (std::size_t q = 0; q < nq; ++q) {
        std::int64_t count = 0;
        for (const auto* part : parts(q)) count += static_cast<std::int64_t>(part->size());
        result.limits[q + 1] = result.limits[q] + count;
    }
    const auto total = static_cast<std::size_t>(result.limits[nq]);
    result.distances.resize(total);
    result.ids.resize(total);
    pool::run(nq, plan.threads, [&](std::size_t q) {
        const auto at = result.limits[q];
        sort_entries(parts(q), codes.bits, !options.ids, static_cast<std::size_t>(result.limits[q + 1] - at),
                     result.distances.data() + at, result.ids.data() + at);
    });
    return result;
}

}  // namespace idcwh
