// See merge_sorted.hpp.
#include "index/merge_sorted.hpp"

#include <algorithm>

#include "base/interrupt.hpp"
#include "base/pool.hpp"
#include "scan/counting_merge.hpp"

namespace idcwh::detail {
namespace {

// A ranked list and its next entry.
struct Cursor {
    const std::int32_t* distances;
    const std::int64_t* ids;
    std::size_t left;

    // Returns true if this entry precedes the other's. Both have entries left.
    bool before(const Cursor& other) const {
        return *distances != *other.distances ? *distances < *other.distances : *ids < *other.ids;
    }
};

// The memory for the results of a query.
struct Output {
    std::int32_t* distances;
    std::int64_t* ids;
    std::size_t room;

    void take(Cursor& from) {
        *distances++ = *from.distances++;
        *ids++ = *from.ids++;
        --from.left, --room;
    }
    void take_all(const Cursor& from) {
        const std::size_t count = std::min(room, from.left);
        std::copy_n(from.distances, count, distances);
        std::copy_n(from.ids, count, ids);
    }
};

void merge(std::vector<Cursor>& cursors, Output out) {
    std::erase_if(cursors, [](const Cursor& cursor) { return cursor.left == 0; });
    const auto later = [](const Cursor& a, const Cursor& b) { return b.before(a); };
    std::make_heap(cursors.begin(), cursors.end(), later);
    while (out.room && cursors.size() > 1) {
        std::pop_heap(cursors.begin(), cursors.end(), later);
        Cursor& first = cursors.back();
        // Parts often have consecutive ids, so ids at one distance are often a run of one part.
        do out.take(first);
        while (out.room && first.left && first.before(cursors.front()));
        if (first.left)
            std::push_heap(cursors.begin(), cursors.end(), later);
        else
            cursors.pop_back();
    }
    if (!cursors.empty()) out.take_all(cursors.front());
}

Cursor of_query(const Lists& lists, std::size_t q) {
    return {lists.distances.data() + q * lists.length, lists.ids.data() + q * lists.length, lists.length};
}

Cursor of_query(const Hits& hits, std::size_t q) {
    const std::int64_t begin = hits.limits[q];
    return {hits.distances.data() + begin, hits.ids.data() + begin,
            static_cast<std::size_t>(hits.limits[q + 1] - begin)};
}

// Merges the parts. output(q) is the memory for query q; `results` is the number of results of all queries.
template <class Part, class To>
void merge_queries(std::span<const Part> parts, std::size_t nq, std::size_t results, const SearchOptions& options,
                   To output) {
    constexpr std::size_t least_results = 1 << 16;  // below, a second thread costs more than it saves
    const unsigned most = options.threads ? options.threads : pool::available_threads();
    const std::size_t tasks = results < least_results ? 1 : std::min(nq, std::size_t{4} * most);
    Stop stop(options.interrupt);
    const auto body = [&](std::size_t task) {
        std::vector<Cursor> cursors;
        for (std::size_t q = task * nq / tasks; q < (task + 1) * nq / tasks; ++q) {
            stop.check();
            cursors.clear();
            for (const Part& part : parts) cursors.push_back(of_query(part, q));
            merge(cursors, output(q));
        }
    };
    tasks == 1 ? body(0) : pool::run(tasks, most, body, stop.while_waiting());
}

}  // namespace

void merge(std::span<const Lists> parts, std::size_t nq, std::size_t k, std::int32_t* distances, std::int64_t* ids,
           const SearchOptions& options) {
    merge_queries(parts, nq, nq * k, options, [&](std::size_t q) { return Output{distances + q * k, ids + q * k, k}; });
}

Hits merge(std::span<const Hits> parts, const SearchOptions& options) {
    Hits all;
    const std::size_t nq = parts[0].limits.size() - 1;
    all.limits.resize(nq + 1);
    for (const Hits& part : parts)
        for (std::size_t q = 0; q <= nq; ++q) all.limits[q] += part.limits[q];
    make_room(all);
    merge_queries(parts, nq, all.ids.size(), options, [&](std::size_t q) {
        const std::int64_t begin = all.limits[q];
        return Output{all.distances.data() + begin, all.ids.data() + begin,
                      static_cast<std::size_t>(all.limits[q + 1] - begin)};
    });
    return all;
}

void cut_behind_ties(Hits& hits, std::size_t k) {
    std::int64_t kept = 0, begin = 0;
    for (std::size_t q = 0; q + 1 < hits.limits.size(); ++q) {
        const std::int64_t stop = hits.limits[q + 1];
        std::int64_t end = std::min(stop, begin + static_cast<std::int64_t>(k));
        if (end > begin) {
            const std::int32_t last = hits.distances[static_cast<std::size_t>(end) - 1];
            while (end < stop && hits.distances[static_cast<std::size_t>(end)] == last) ++end;
        }
        std::copy(hits.distances.begin() + begin, hits.distances.begin() + end, hits.distances.begin() + kept);
        std::copy(hits.ids.begin() + begin, hits.ids.begin() + end, hits.ids.begin() + kept);
        kept += end - begin;
        begin = stop;
        hits.limits[q + 1] = kept;
    }
    hits.distances.resize(static_cast<std::size_t>(kept));
    hits.ids.resize(static_cast<std::size_t>(kept));
}

}  // namespace idcwh::detail
