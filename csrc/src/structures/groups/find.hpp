// Runs queries over the distinct codes with the finder that the planner chose. Threads share the queries and, in a scan
// for few queries, also the codes.
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
#include "structures/groups/filter.hpp"
#include "structures/groups/search.hpp"

namespace idcwh {

using Finder = GroupSearch::Finder;

// Gives the sink the distinct codes that it needs. Returns false if a scan is cheaper; the sink then has a part.
template <class Sink>
bool find_near(const Groups& groups, Finder finder, const std::uint8_t* query, Sink& sink, double scan_ns) {
    if (finder == Finder::table) return groups.table()->has_value(query) && groups.table()->search(query, sink);
    return finder == Finder::multi_index && groups.multi()->search(groups.codes(), query, sink, scan_ns);
}

// The queries of one task against its part of the distinct codes. make(q) returns an empty sink for query q. scan_ns:
// the cost of a scan for one query.
template <class Make>
auto search_some(const Groups& groups, Finder finder, const RowSet& all, const Plan::Task& task, const Batch& batch,
                 double scan_ns, Make make, Stop& stop) {
    const std::size_t bytes = code_bytes(batch.codes.bits);
    std::vector<decltype(make(0))> sinks, rest;
    std::vector<std::size_t> scanned;  // queries that are left for the scan
    std::vector<std::uint8_t> copies;
    for (std::size_t q = 0; q < task.queries; ++q) {
        const std::uint8_t* query = batch.query(task.first_query + q);
        sinks.push_back(make(task.first_query + q));
        if (find_near(groups, finder, query, sinks.back(), scan_ns)) continue;
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

// Runs all queries. make(q) returns an empty sink for query q. done(q, sinks, count) receives the sinks of all parts,
// once per query and on any thread.
template <class Make, class Done>
void search_groups(const Groups& groups, Finder finder, const Batch& batch, Make make, Done done, Stop& stop) {
    using Sink = decltype(make(0));
    const RowSet all(Rows::all(), groups.distinct());
    Plan plan = idcwh::plan(groups.codes(), all, batch.nq, batch.options);
    const double scan_ns = cost::scan_ns(groups.codes(), batch.nq) / static_cast<double>(batch.nq);
    if (finder != Finder::scan) plan.chunks = 1, plan.chunk_rows = groups.distinct();
    active_kernels();  // throws for an invalid IDCWH_ISA here, in the caller's thread
    std::vector<std::vector<Sink>> found(plan.tasks());
    std::vector<std::atomic<std::size_t>> chunks_left(plan.groups);
    for (auto& value : chunks_left) value.store(plan.chunks);
    pool::run(
        plan.tasks(), plan.threads,
        [&](std::size_t index) {
            const Plan::Task task = plan.task(index);
            found[index] = search_some(groups, finder, all, task, batch, scan_ns, make, stop);
            if (chunks_left[task.group].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
            // The last part of a group of queries merges its results while other groups still search.
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
