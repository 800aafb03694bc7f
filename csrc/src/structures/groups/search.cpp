// See search.hpp.
#include "structures/groups/search.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "scan/counting_merge.hpp"
#include "scan/plan.hpp"
#include "structures/groups/expand.hpp"
#include "structures/groups/find.hpp"
#include "structures/groups/histogram.hpp"
#include "structures/groups/rank.hpp"
#include "structures/groups/sinks.hpp"

namespace idcwh {
namespace {

// chosen by hand: if more than 1 row in 16 is wanted, one pass over all rows is expected to be faster
constexpr std::size_t ranking_share = 16;

// Returns the hits of sinks that have seen parts of the codes.
template <class Sink>
std::vector<GroupHit> gather(const Sink* const* sinks, std::size_t count) {
    std::vector<GroupHit> hits = sinks[0]->hits();
    for (std::size_t i = 1; i < count; ++i) hits.insert(hits.end(), sinks[i]->hits().begin(), sinks[i]->hits().end());
    return hits;
}

// The upper bound of each query's k-th distance, and the group of the query's own code if it has at least k rows.
// Such a query needs no further search.
struct NearestGroups {
    NearestGroups(const GroupFilter& selected, const Batch& batch, std::size_t k)
        : selected(selected), k(k), kths(batch.nq), query_group(batch.nq, Groups::none) {
        const Groups& groups = selected.groups();
        const bool may_suffice = !groups.table() && groups.largest() >= k;
        for (std::size_t q = 0; q < batch.nq; ++q) {
            if (may_suffice) query_group[q] = groups.find(batch.query(q));
            if (query_group[q] != Groups::none && selected.rows(query_group[q]) < k) query_group[q] = Groups::none;
            kths[q].store(query_group[q] == Groups::none ? static_cast<std::int32_t>(groups.codes().bits) : -1);
        }
    }

    GroupKBest selector(std::size_t q) { return {selected, k, kths[q]}; }
    std::vector<GroupHit> hits(std::size_t q, const GroupKBest* const* sinks, std::size_t count) const {
        if (query_group[q] != Groups::none) return {{query_group[q], 0}};
        return gather(sinks, count);
    }

    const GroupFilter& selected;
    std::size_t k;
    std::vector<std::atomic<std::int32_t>> kths;
    std::vector<Group> query_group;
};

// Expands the groups of each query to rows.
Hits expand_all(const GroupFilter& selected, const std::vector<std::vector<GroupHit>>& found,
                const SearchOptions& options, Stop& stop) {
    const std::size_t nq = found.size();
    Hits result;
    result.limits.assign(nq + 1, 0);
    for (std::size_t q = 0; q < nq; ++q) {
        std::int64_t rows = 0;
        for (const GroupHit& hit : found[q]) rows += selected.rows(hit.group);
        result.limits[q + 1] = result.limits[q] + rows;
    }
    make_room(result);
    constexpr std::size_t least_rows = 10000;  // below, a second thread costs more than it saves
    const unsigned threads = options.threads                  ? options.threads
                             : result.ids.size() < least_rows ? 1
                                                              : pool::available_threads();
    const std::size_t tasks = std::min<std::size_t>(nq, 8 * threads);
    pool::run(
        tasks, threads,
        [&](std::size_t task) {
            Expander expander(selected, options.ids);
            for (std::size_t q = nq * task / tasks; q < nq * (task + 1) / tasks; ++q) {
                stop.check();
                const auto at = static_cast<std::size_t>(result.limits[q]);
                expander.expand(found[q], static_cast<std::size_t>(result.limits[q + 1]) - at,
                                result.distances.data() + at, result.ids.data() + at);
            }
        },
        stop.while_waiting());
    return result;
}

// Keeps the groups that are as near as the k-th row.
void cut_ties(const GroupFilter& selected, std::size_t k, std::vector<GroupHit>& hits) {
    std::sort(hits.begin(), hits.end(), [](const GroupHit& a, const GroupHit& b) { return a.distance < b.distance; });
    std::size_t rows = 0, at = 0;
    for (std::int32_t kth = 0; at < hits.size() && (rows < k || hits[at].distance == kth); ++at) {
        kth = hits[at].distance;
        rows += selected.rows(hits[at].group);
    }
    hits.resize(at);
}

}  // namespace

std::vector<std::unique_ptr<const Searcher>> GroupSearch::all_of(const Groups& groups) {
    std::vector<std::unique_ptr<const Searcher>> list;
    // The table comes first, because the planner takes the first of equal costs.
    if (groups.table()) list.push_back(std::make_unique<GroupSearch>(groups, Finder::table));
    if (groups.multi()) list.push_back(std::make_unique<GroupSearch>(groups, Finder::multi_index));
    list.push_back(std::make_unique<GroupSearch>(groups, Finder::scan));
    return list;
}

const char* GroupSearch::name() const {
    return finder_ == Finder::scan ? "groups" : finder_ == Finder::table ? "table" : "multi-index";
}

Unfinished GroupSearch::topk(const Batch& batch, std::size_t k, std::int32_t* distances, std::int64_t* ids) const {
    const RowSet rows(batch.options.rows, batch.codes.size);
    const GroupFilter selected(groups_, rows, GroupFilter::Needs::places);
    Stop stop(batch.options.interrupt);
    if (k > selected.size() / ranking_share && selected.size() > 256) {
        rank_groups(selected, batch, k, distances, ids, stop);
        return {};
    }
    NearestGroups nearest(selected, batch, k);
    search_groups(
        groups_, finder_, batch, [&](std::size_t q) { return nearest.selector(q); },
        [&](std::size_t q, const GroupKBest* const* sinks, std::size_t count) {
            Expander expander(selected, batch.options.ids);
            expander.expand(nearest.hits(q, sinks, count), k, distances + q * k, ids + q * k);
        },
        stop);
    return {};
}

Hits GroupSearch::topk_ties(const Batch& batch, std::size_t k) const {
    const RowSet rows(batch.options.rows, batch.codes.size);
    const GroupFilter selected(groups_, rows, GroupFilter::Needs::places);
    Stop stop(batch.options.interrupt);
    std::vector<std::vector<GroupHit>> found(batch.nq);
    NearestGroups nearest(selected, batch, k);
    search_groups(
        groups_, finder_, batch, [&](std::size_t q) { return nearest.selector(q); },
        [&](std::size_t q, const GroupKBest* const* sinks, std::size_t count) {
            found[q] = nearest.hits(q, sinks, count);
            cut_ties(selected, k, found[q]);
        },
        stop);
    return expand_all(selected, found, batch.options, stop);
}

Hits GroupSearch::radius(const Batch& batch, unsigned radius, Unfinished&) const {
    const RowSet rows(batch.options.rows, batch.codes.size);
    const GroupFilter selected(groups_, rows, GroupFilter::Needs::places);
    Stop stop(batch.options.interrupt);
    const auto limit = static_cast<std::int32_t>(std::min(radius, batch.codes.bits));
    std::vector<std::vector<GroupHit>> found(batch.nq);
    search_groups(
        groups_, finder_, batch, [&](std::size_t) { return GroupCollector(selected, limit); },
        [&](std::size_t q, const GroupCollector* const* sinks, std::size_t count) { found[q] = gather(sinks, count); },
        stop);
    return expand_all(selected, found, batch.options, stop);
}

Unfinished GroupSearch::count(const Batch& batch, unsigned radius, std::int64_t* counts) const {
    const RowSet rows(batch.options.rows, batch.codes.size);
    const GroupFilter selected(groups_, rows, GroupFilter::Needs::counts);
    Stop stop(batch.options.interrupt);
    const auto limit = static_cast<std::int32_t>(std::min(radius, batch.codes.bits));
    search_groups(
        groups_, finder_, batch, [&](std::size_t) { return GroupCounter(selected, limit); },
        [&](std::size_t q, const GroupCounter* const* sinks, std::size_t parts) {
            counts[q] = 0;
            for (std::size_t i = 0; i < parts; ++i) counts[q] += sinks[i]->rows();
        },
        stop);
    return {};
}

void GroupSearch::histogram(const Batch& batch, std::int64_t* counts) const {
    const RowSet rows(batch.options.rows, batch.codes.size);
    count_distances(GroupFilter(groups_, rows, GroupFilter::Needs::counts), batch, counts);
}

void GroupSearch::rank(const Batch& batch, std::int32_t* distances, std::int64_t* ids) const {
    const RowSet rows(batch.options.rows, batch.codes.size);
    Stop stop(batch.options.interrupt);
    rank_groups(GroupFilter(groups_, rows, GroupFilter::Needs::counts), batch, batch.eligible, distances, ids, stop);
}

}  // namespace idcwh
