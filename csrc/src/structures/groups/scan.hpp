// Runs queries over the distinct codes, by direct addressing or a multi-index where there is one and it is cheaper,
// else by the scan, with threads over the queries and, where these are few, over the codes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "scan/plan.hpp"
#include "scan/scan.hpp"
#include "structures/cost.hpp"
#include "structures/groups/selected.hpp"

namespace idcwh {

// Gives the sink what it wants of the distinct codes. False when a scan is cheaper; the sink then has a part.
template <class Sink>
bool search_near(const Groups& groups, const std::uint8_t* query, Sink& sink, double budget_ns) {
    const DirectTable* const table = groups.table();
    if (table) return table->has_value(query) && table->search(query, sink);
    return budget_ns > 0 && groups.multi()->search(groups.codes(), query, sink, budget_ns);
}

// The queries of one task, against its part of the distinct codes. make(q) returns an empty sink for query q.
// budget_ns: for each query over a multi-index, 0 to scan at once.
template <class Make>
auto search_some(const Groups& groups, const RowSet& all, const Plan::Task& task, const std::uint8_t* queries,
                 double budget_ns, Make make, Stop& stop) {
    const std::size_t bytes = code_bytes(groups.codes().bits);
    std::vector<decltype(make(0))> sinks, rest;
    std::vector<std::size_t> scanned;  // queries that are left for the scan
    std::vector<std::uint8_t> copies;
    for (std::size_t q = 0; q < task.queries; ++q) {
        const std::uint8_t* query = queries + (task.first_query + q) * bytes;
        sinks.push_back(make(task.first_query + q));
        if (search_near(groups, query, sinks.back(), budget_ns)) continue;
        scanned.push_back(q);
        rest.push_back(make(task.first_query + q));
        copies.insert(copies.end(), query, query + bytes);
        stop.check();
    }
    if (scanned.empty()) return sinks;
    Plan::Task some = task;
    some.queries = scanned.size();
    scan(active_kernels(), groups.codes(), all, some, copies.data(), rest.data(), stop);
    for (std::size_t i = 0; i < scanned.size(); ++i) sinks[scanned[i]] = std::move(rest[i]);
    return sinks;
}

// make(q) returns an empty sink for query q; done(q, sinks, count) takes those that have seen parts of the codes. It is
// called once a query, on any thread. near_ns: what a query is expected to cost, as Groups says.
template <class Make, class Done>
void search_groups(const Groups& groups, const std::uint8_t* queries, std::size_t nq, double near_ns,
                   const SearchOptions& options, Make make, Done done, Stop& stop) {
    using Sink = decltype(make(0));
    const RowSet all(Rows::all(), groups.distinct());
    Plan plan = idcwh::plan(groups.codes(), all, nq, options);
    const double scan_ns = cost::scan_ns(groups.codes(), nq) / static_cast<double>(std::max<std::size_t>(nq, 1));
    const auto sharing = static_cast<double>(std::min<std::size_t>(plan.chunks, plan.threads));  // threads of one scan
    const double budget_ns = groups.multi() && near_ns < scan_ns / sharing ? scan_ns : 0;
    // Neither is cut in parts.
    if (groups.table() || budget_ns > 0) plan.chunks = 1, plan.chunk_rows = groups.distinct();
    active_kernels();  // a wrong IDCWH_ISA is reported here, by the caller's thread
    std::vector<std::vector<Sink>> found(plan.tasks());
    std::vector<std::atomic<std::size_t>> chunks_left(plan.groups);
    for (auto& value : chunks_left) value.store(plan.chunks);
    pool::run(
        plan.tasks(), plan.threads,
        [&](std::size_t index) {
            const Plan::Task task = plan.task(index);
            found[index] = search_some(groups, all, task, queries, budget_ns, make, stop);
            if (chunks_left[task.group].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
            // The last part of a group of queries puts its results together, while others still search.
            const auto first = found.begin() + static_cast<std::ptrdiff_t>(task.group * plan.chunks);
            std::vector<const Sink*> parts(plan.chunks);
            for (std::size_t q = 0; q < task.queries; ++q) {
                for (std::size_t i = 0; i < plan.chunks; ++i) parts[i] = &first[static_cast<std::ptrdiff_t>(i)][q];
                done(task.first_query + q, parts.data(), parts.size());
                stop.check();
            }
            for (std::size_t i = 0; i < plan.chunks; ++i)
                std::vector<Sink>().swap(first[static_cast<std::ptrdiff_t>(i)]);
        },
        stop.while_waiting());
}

}  // namespace idcwh
