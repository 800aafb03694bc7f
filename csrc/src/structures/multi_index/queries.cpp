// Top-k, radius and count over a multi-index: which queries are worth trying, the sinks, and the scan of those that
// were not, or that gave up.
#include <algorithm>
#include <cstring>

#include "base/interrupt.hpp"
#include "base/pool.hpp"
#include "scan/plan.hpp"
#include "scan/rows.hpp"
#include "structures/cost.hpp"
#include "structures/multi_index/multi_index.hpp"
#include "structures/nearest.hpp"

namespace idcwh {
namespace {

struct TopkSink {
    Nearest nearest;
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

// One query by a scan of the eligible rows.
double scan_ns(const Codes& codes, std::size_t nq, const SearchOptions& options) {
    return cost::scan_ns(codes, nq, eligible(codes, options), cost::scattered(options.rows));
}

// Runs search(q) for all queries on the threads of the options; returns the queries for which it was false.
template <class Search>
std::vector<std::size_t> run_queries(std::size_t nq, const SearchOptions& options, const Search& search) {
    const unsigned threads = options.threads ? options.threads : pool::available_threads();
    const std::size_t portion = std::clamp<std::size_t>(nq / (8 * threads), 1, 16);
    std::vector<std::uint8_t> gave_up(nq);
    Stop stop(options.interrupt);
    pool::run((nq + portion - 1) / portion, threads,
              [&](std::size_t task) {
                  for (std::size_t q = task * portion; q < std::min(nq, (task + 1) * portion); ++q) {
                      stop.check();
                      gave_up[q] = !search(q);
                  }
              },
              stop.while_waiting());
    std::vector<std::size_t> left;
    for (std::size_t q = 0; q < nq; ++q)
        if (gave_up[q]) left.push_back(q);
    return left;
}

std::vector<std::uint8_t> gather(const Codes& codes, const std::uint8_t* queries,
                                 const std::vector<std::size_t>& which) {
    const std::size_t bytes = code_bytes(codes.bits);
    std::vector<std::uint8_t> gathered(which.size() * bytes);
    for (std::size_t i = 0; i < which.size(); ++i)
        std::memcpy(gathered.data() + i * bytes, queries + which[i] * bytes, bytes);
    return gathered;
}

}  // namespace

std::size_t topk(const MultiIndex& index, const Codes& codes, const std::uint8_t* queries, std::size_t nq,
                 std::size_t k, std::int32_t* distances, std::int64_t* ids, const SearchOptions& options) {
    check(codes, queries, nq, options);
    const std::size_t rows = eligible(codes, options);
    k = std::min(k, rows);
    if (k == 0 || nq == 0) return k;
    check_results(distances, ids, nq, k);
    const double scan = scan_ns(codes, nq, options), expected = index.expected_ns_topk(k, rows);

    const std::size_t bytes = code_bytes(codes.bits);
    const auto left = run_queries(nq, options, [&](std::size_t q) {
        TopkSink sink{Nearest(k, codes.bits), options.ids, RowTest(options.rows)};
        if (!index.search(codes, queries + q * bytes, sink, scan, std::min(1.5 * expected, 0.6 * scan))) return false;
        sink.nearest.finish(distances + q * k, ids + q * k);
        return true;
    });
    if (left.empty()) return k;
    const auto gathered = gather(codes, queries, left);
    std::vector<std::int32_t> left_distances(left.size() * k);
    std::vector<std::int64_t> left_ids(left.size() * k);
    topk(codes, gathered.data(), left.size(), k, left_distances.data(), left_ids.data(), options);
    for (std::size_t i = 0; i < left.size(); ++i) {
        std::copy_n(left_distances.data() + i * k, k, distances + left[i] * k);
        std::copy_n(left_ids.data() + i * k, k, ids + left[i] * k);
    }
    return k;
}

Hits radius(const MultiIndex& index, const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
            const SearchOptions& options) {
    check(codes, queries, nq, options);
    if (nq == 0) return idcwh::radius(codes, queries, nq, radius, options);
    const double scan = scan_ns(codes, nq, options);
    const std::size_t bytes = code_bytes(codes.bits);
    const auto reach = static_cast<std::int32_t>(std::min(radius, codes.bits));
    std::vector<std::vector<Neighbor>> found(nq);
    const auto left = run_queries(nq, options, [&](std::size_t q) {
        RadiusSink sink{reach, options.ids, RowTest(options.rows), {}};
        if (!index.search(codes, queries + q * bytes, sink, scan)) return false;
        std::sort(sink.found.begin(), sink.found.end());
        found[q] = std::move(sink.found);
        return true;
    });
    const Hits scanned = left.empty()
                             ? Hits{{0}, {}, {}}
                             : idcwh::radius(codes, gather(codes, queries, left).data(), left.size(), radius, options);
    Hits hits;
    hits.limits.push_back(0);
    std::size_t next = 0;
    for (std::size_t q = 0; q < nq; ++q) {
        if (next < left.size() && left[next] == q) {
            const auto begin = scanned.limits[next], end = scanned.limits[++next];
            hits.distances.insert(hits.distances.end(), scanned.distances.begin() + begin,
                                  scanned.distances.begin() + end);
            hits.ids.insert(hits.ids.end(), scanned.ids.begin() + begin, scanned.ids.begin() + end);
        } else {
            for (const Neighbor& neighbor : found[q]) {
                hits.distances.push_back(neighbor.distance);
                hits.ids.push_back(neighbor.id);
            }
        }
        hits.limits.push_back(static_cast<std::int64_t>(hits.ids.size()));
    }
    return hits;
}

void count(const MultiIndex& index, const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
           std::int64_t* counts, const SearchOptions& options) {
    check(codes, queries, nq, options);
    check_counts(counts, nq, 1);
    if (nq == 0) return;
    const double scan = scan_ns(codes, nq, options);
    const std::size_t bytes = code_bytes(codes.bits);
    const auto reach = static_cast<std::int32_t>(std::min(radius, codes.bits));
    const auto left = run_queries(nq, options, [&](std::size_t q) {
        CountSink sink{reach, RowTest(options.rows)};
        if (!index.search(codes, queries + q * bytes, sink, scan)) return false;
        counts[q] = sink.count;
        return true;
    });
    if (left.empty()) return;
    std::vector<std::int64_t> left_counts(left.size());
    count(codes, gather(codes, queries, left).data(), left.size(), radius, left_counts.data(), options);
    for (std::size_t i = 0; i < left.size(); ++i) counts[left[i]] = left_counts[i];
}

}  // namespace idcwh
