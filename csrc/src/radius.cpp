// Every code within a radius of each query.
#include "radius.hpp"

#include <algorithm>

#include "dispatch.hpp"
#include "merge.hpp"
#include "plan.hpp"
#include "pool.hpp"
#include "scan.hpp"

namespace idcwh {
namespace {

struct Collector {
    std::int32_t radius;
    const std::int64_t* row_ids;
    std::vector<Entry> entries;

    std::int32_t limit() const { return radius; }
    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
        for (std::size_t i = 0; i < count; ++i) {
            const std::int64_t row = block.number(hits[i].row);
            entries.push_back({row_ids ? row_ids[row] : row, hits[i].distance});
        }
    }
};

}  // namespace

Hits radius_each(const Codes& codes, const RowSet& rows, const std::uint8_t* queries, std::size_t nq,
                 const std::vector<std::int32_t>& radii, const SearchOptions& options) {
    const auto& kernels = active_kernels();
    const Plan plan = idcwh::plan(codes, rows, nq, options);
    Stop stop(options.interrupt);
    std::vector<std::vector<Collector>> found(plan.tasks());
    pool::run(
        plan.tasks(), plan.threads,
        [&](std::size_t index) {
            const Plan::Task task = plan.task(index);
            for (std::size_t q = task.first_query; q < task.first_query + task.queries; ++q)
                found[index].push_back({radii[q], options.ids, {}});
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

Hits radius(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
            const SearchOptions& options) {
    check(codes, queries, nq, options);
    const RowSet rows(options.rows, codes.size);
    const auto within = static_cast<std::int32_t>(std::min(radius, codes.bits));
    return radius_each(codes, rows, queries, nq, std::vector<std::int32_t>(nq, within), options);
}

}  // namespace idcwh
