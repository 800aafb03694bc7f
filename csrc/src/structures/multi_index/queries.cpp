// See queries.hpp.
#include "structures/multi_index/queries.hpp"

#include <algorithm>

#include "base/interrupt.hpp"
#include "base/pool.hpp"
#include "scan/k_best.hpp"
#include "scan/rows.hpp"
#include "structures/cost.hpp"

namespace idcwh {
namespace {

struct TopkSink {
    KBest nearest;
    const std::int64_t* ids;
    RowTest eligible;

    std::int32_t limit() const { return nearest.limit(); }
    std::int32_t limit_from(std::size_t row) const {
        return ids ? nearest.limit() : nearest.limit_from(static_cast<std::int64_t>(row));
    }
    void take(std::size_t row, std::int32_t distance) {
        if (eligible(row)) nearest.add(ids ? ids[row] : static_cast<std::int64_t>(row), distance);
    }
};

struct Neighbor {
    std::int32_t distance;
    std::int64_t id;
    bool operator<(const Neighbor& other) const {
        return distance != other.distance ? distance < other.distance : id < other.id;
    }
};

struct RadiusSink {
    std::int32_t radius;
    const std::int64_t* ids;
    RowTest eligible;
    std::vector<Neighbor> found;

    std::int32_t limit() const { return radius; }
    void take(std::size_t row, std::int32_t distance) {
        if (eligible(row)) found.push_back({distance, ids ? ids[row] : static_cast<std::int64_t>(row)});
    }
};

struct CountSink {
    std::int32_t radius;
    RowTest eligible;
    std::int64_t count = 0;

    std::int32_t limit() const { return radius; }
    void take(std::size_t row, std::int32_t) { count += eligible(row); }
};

// The scan of one query, as the budget of its search.
double scan_ns(const Batch& batch) {
    return cost::scan_ns(batch.codes, batch.nq, batch.eligible, cost::scattered(batch.options.rows));
}

// Runs search(q) for each query on the threads of the options; returns the queries for which it was false.
template <class Search>
Unfinished run_queries(const Batch& batch, const Search& search) {
    const unsigned threads = batch.options.threads ? batch.options.threads : pool::available_threads();
    const std::size_t nq = batch.nq, portion = std::clamp<std::size_t>(nq / (8 * threads), 1, 16);
    std::vector<std::uint8_t> gave_up(nq);
    Stop stop(batch.options.interrupt);
    pool::run((nq + portion - 1) / portion, threads,
              [&](std::size_t task) {
                  for (std::size_t q = task * portion; q < std::min(nq, (task + 1) * portion); ++q) {
                      stop.check();
                      gave_up[q] = !search(q);
                  }
              },
              stop.while_waiting());
    Unfinished unfinished;
    for (std::size_t q = 0; q < nq; ++q)
        if (gave_up[q]) unfinished.push_back(q);
    return unfinished;
}

}  // namespace

double MultiIndexSearch::expected_ns(const Request& request) const {
    switch (request.work) {
        case Work::topk: return index_.expected_ns_topk(request.wanted, request.eligible);
        case Work::radius:
        case Work::count: return index_.expected_ns_radius(static_cast<unsigned>(request.wanted));
        default: return infinite;
    }
}

Unfinished MultiIndexSearch::topk(const Batch& batch, std::size_t k, std::int32_t* distances, std::int64_t* ids) const {
    const double scan = scan_ns(batch), expected = index_.expected_ns_topk(k, batch.eligible);
    return run_queries(batch, [&](std::size_t q) {
        TopkSink sink{KBest(k, batch.codes.bits), batch.options.ids, RowTest(batch.options.rows)};
        const double patience = std::min(1.5 * expected, 0.6 * scan);
        if (!index_.search(batch.codes, batch.query(q), sink, scan, patience)) return false;
        sink.nearest.finish(distances + q * k, ids + q * k);
        return true;
    });
}

Hits MultiIndexSearch::radius(const Batch& batch, unsigned radius, Unfinished& unfinished) const {
    const double scan = scan_ns(batch);
    const auto reach = static_cast<std::int32_t>(std::min(radius, batch.codes.bits));
    std::vector<std::vector<Neighbor>> found(batch.nq);
    unfinished = run_queries(batch, [&](std::size_t q) {
        RadiusSink sink{reach, batch.options.ids, RowTest(batch.options.rows), {}};
        if (!index_.search(batch.codes, batch.query(q), sink, scan)) return false;
        std::sort(sink.found.begin(), sink.found.end());
        found[q] = std::move(sink.found);
        return true;
    });
    Hits hits;
    hits.limits.push_back(0);
    for (const auto& neighbors : found) {
        for (const Neighbor& neighbor : neighbors) {
            hits.distances.push_back(neighbor.distance);
            hits.ids.push_back(neighbor.id);
        }
        hits.limits.push_back(static_cast<std::int64_t>(hits.ids.size()));
    }
    return hits;
}

Unfinished MultiIndexSearch::count(const Batch& batch, unsigned radius, std::int64_t* counts) const {
    const double scan = scan_ns(batch);
    const auto reach = static_cast<std::int32_t>(std::min(radius, batch.codes.bits));
    return run_queries(batch, [&](std::size_t q) {
        CountSink sink{reach, RowTest(batch.options.rows)};
        if (!index_.search(batch.codes, batch.query(q), sink, scan)) return false;
        counts[q] = sink.count;
        return true;
    });
}

}  // namespace idcwh
