// The oracle of snapshots: a plain list of (id, code), sorted for each query. Compares every operation of a snapshot
// with it, for every kind of selection.
#pragma once

#include <idcwh/index.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "check.hpp"
#include "oracle.hpp"

namespace check {

// The expected contents of a snapshot, in the order of the adds.
struct Model {
    unsigned bits;
    std::vector<std::int64_t> ids;
    std::vector<std::vector<std::uint8_t>> codes;

    Ranking rank(const std::uint8_t* query, const std::function<bool(std::size_t)>& wanted) const {
        Ranking ranking;
        for (std::size_t row = 0; row < ids.size(); ++row)
            if (wanted(row)) ranking.emplace_back(distance(codes[row].data(), query, codes[row].size()), ids[row]);
        std::sort(ranking.begin(), ranking.end());
        return ranking;
    }
};

inline void compare(const idcwh::Snapshot& snapshot, const Model& model, const std::vector<std::uint8_t>& queries,
                    const idcwh::QueryOptions& options, const std::function<bool(std::size_t)>& wanted) {
    const std::size_t bytes = idcwh::code_bytes(model.bits), nq = queries.size() / bytes;
    std::vector<Ranking> expected;
    for (std::size_t q = 0; q < nq; ++q) expected.push_back(model.rank(queries.data() + q * bytes, wanted));
    const std::size_t rows = expected[0].size();
    CHECK(snapshot.eligible(options.where) == rows);
    std::vector<std::int32_t> distances(nq * rows);
    std::vector<std::int64_t> ids(nq * rows);
    const auto equal = [&](std::size_t q, std::size_t at, std::size_t count) {
        return starts_with(expected[q], count, distances.data() + at, ids.data() + at);
    };
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{7}, rows, rows + 1}) {
        const std::size_t kept = snapshot.topk(queries.data(), nq, k, distances.data(), ids.data(), options);
        CHECK(kept == std::min(k, rows));
        for (std::size_t q = 0; q < nq; ++q) CHECK(equal(q, q * kept, kept));
        const auto hits = snapshot.topk_ties(queries.data(), nq, k, options);
        for (std::size_t q = 0; q < nq; ++q) {
            const std::size_t last = rows_with_ties(expected[q], k);
            CHECK(static_cast<std::size_t>(hits.limits[q + 1] - hits.limits[q]) == last);
            for (std::size_t i = 0; i < last; ++i)
                CHECK(hits.ids[static_cast<std::size_t>(hits.limits[q]) + i] == expected[q][i].second);
        }
    }
    CHECK(snapshot.rank(queries.data(), nq, distances.data(), ids.data(), options) == rows);
    for (std::size_t q = 0; q < nq; ++q) CHECK(equal(q, q * rows, rows));
    std::vector<std::int64_t> histogram(nq * (model.bits + 1));
    snapshot.histogram(queries.data(), nq, histogram.data(), options);
    for (const unsigned radius : {0u, model.bits / 3, model.bits / 2, model.bits + 1}) {
        const auto hits = snapshot.radius(queries.data(), nq, radius, options);
        std::vector<std::int64_t> counts(nq);
        snapshot.count(queries.data(), nq, radius, counts.data(), options);
        for (std::size_t q = 0; q < nq; ++q) {
            const std::size_t within = rows_within(expected[q], radius);
            CHECK(static_cast<std::size_t>(hits.limits[q + 1] - hits.limits[q]) == within);
            CHECK(static_cast<std::size_t>(counts[q]) == within);
            for (std::size_t i = 0; i < within; ++i) {
                const std::size_t at = static_cast<std::size_t>(hits.limits[q]) + i;
                CHECK(hits.ids[at] == expected[q][i].second);
                CHECK(hits.distances[at] == expected[q][i].first);
            }
            const auto* row = histogram.data() + q * (model.bits + 1);
            CHECK(static_cast<std::size_t>(
                      std::accumulate(row, row + std::min(radius, model.bits) + 1, std::int64_t{0})) == within);
        }
    }
}

// Compares searches without some of the ids, different ones per query.
inline void compare_without(const idcwh::Snapshot& snapshot, const Model& model,
                            const std::vector<std::uint8_t>& queries, idcwh::QueryOptions options,
                            const std::function<bool(std::size_t)>& wanted, std::mt19937& random) {
    const std::size_t bytes = idcwh::code_bytes(model.bits), nq = queries.size() / bytes, each = 4;
    std::vector<std::int64_t> exclude(nq * each, -1);
    for (auto& id : exclude)
        if (!model.ids.empty() && random() % 5) id = model.ids[random() % model.ids.size()];
    options.exclude = exclude.data(), options.exclude_count = each;
    const std::size_t rows = snapshot.eligible(options.where);
    std::vector<std::int32_t> distances(nq * rows), all_distances(nq * rows);
    std::vector<std::int64_t> ids(nq * rows), all_ids(nq * rows), counts(nq), histogram(nq * (model.bits + 1));
    snapshot.histogram(queries.data(), nq, histogram.data(), options);
    CHECK(snapshot.rank(queries.data(), nq, all_distances.data(), all_ids.data(), options) == rows);
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{7}, rows + 1}) {
        const std::size_t kept = snapshot.topk(queries.data(), nq, k, distances.data(), ids.data(), options);
        CHECK(kept == std::min(k, rows));
        const auto ties = snapshot.topk_ties(queries.data(), nq, k, options);
        const auto radius = static_cast<unsigned>(random() % (model.bits + 1));
        const auto hits = snapshot.radius(queries.data(), nq, radius, options);
        snapshot.count(queries.data(), nq, radius, counts.data(), options);
        for (std::size_t q = 0; q < nq; ++q) {
            const auto first = exclude.begin() + static_cast<std::ptrdiff_t>(q * each);
            const Ranking expected = model.rank(queries.data() + q * bytes, [&](std::size_t row) {
                return wanted(row) && std::find(first, first + each, model.ids[row]) == first + each;
            });
            const std::size_t some = std::min(kept, expected.size());
            CHECK(starts_with(expected, some, distances.data() + q * kept, ids.data() + q * kept));
            for (std::size_t i = some; i < kept; ++i) {
                CHECK(ids[q * kept + i] == -1);
                CHECK(distances[q * kept + i] == std::numeric_limits<std::int32_t>::max());
            }
            CHECK(starts_with(expected, expected.size(), all_distances.data() + q * rows, all_ids.data() + q * rows));
            for (std::size_t i = expected.size(); i < rows; ++i) CHECK(all_ids[q * rows + i] == -1);
            const auto begin = static_cast<std::size_t>(ties.limits[q]),
                       from = static_cast<std::size_t>(hits.limits[q]);
            const std::size_t tied = rows_with_ties(expected, k), within = rows_within(expected, radius);
            CHECK(static_cast<std::size_t>(ties.limits[q + 1]) - begin == tied);
            CHECK(starts_with(expected, tied, ties.distances.data() + begin, ties.ids.data() + begin));
            CHECK(static_cast<std::size_t>(hits.limits[q + 1]) - from == within);
            CHECK(starts_with(expected, within, hits.distances.data() + from, hits.ids.data() + from));
            CHECK(static_cast<std::size_t>(counts[q]) == within);
            const auto* row = histogram.data() + q * (model.bits + 1);
            CHECK(static_cast<std::size_t>(std::accumulate(row, row + radius + 1, std::int64_t{0})) == within);
        }
    }
}

inline void compare_everywhere(const idcwh::Snapshot& snapshot, const Model& model, std::mt19937& random) {
    const std::size_t n = model.ids.size();
    CHECK(snapshot.size() == n);
    CHECK(snapshot.bits() == model.bits);
    std::vector<std::uint8_t> codes(n * idcwh::code_bytes(model.bits));
    std::vector<std::int64_t> ids(n);
    snapshot.copy(codes.data(), ids.data());
    CHECK(ids == model.ids);
    for (std::size_t row = 0; row < n; ++row)
        CHECK(std::equal(model.codes[row].begin(), model.codes[row].end(),
                         codes.begin() + static_cast<std::ptrdiff_t>(row * model.codes[row].size())));
    std::vector<std::uint8_t> got(codes.size());
    snapshot.get(ids.data(), n, got.data());
    CHECK(got == codes);
    for (const auto id : ids) CHECK(snapshot.contains(id));
    const std::int64_t behind = n ? *std::max_element(ids.begin(), ids.end()) + 1 : 0;
    CHECK(!snapshot.contains(behind));
    CHECK(!snapshot.contains(-1));

    const auto queries = random_codes(2, model.bits, static_cast<std::uint32_t>(random()));
    idcwh::QueryOptions options;
    compare(snapshot, model, queries, options, [](std::size_t) { return true; });
    compare_without(snapshot, model, queries, options, [](std::size_t) { return true; }, random);
    options.threads = 1 + random() % 3;

    std::vector<std::int64_t> chosen = {-5, behind};
    for (const auto id : ids)
        if (random() % 3 == 0) chosen.push_back(id);
    if (random() % 2)
        std::sort(chosen.begin(), chosen.end());
    else
        chosen.push_back(chosen.back());
    options.where = idcwh::Where::of_ids(chosen.data(), chosen.size());
    const std::set<std::int64_t> set(chosen.begin(), chosen.end());
    compare(snapshot, model, queries, options, [&](std::size_t row) { return set.count(model.ids[row]) > 0; });

    const auto first = static_cast<std::int64_t>(random()) % (behind + 1);
    const auto last = first + static_cast<std::int64_t>(random()) % (behind + 1);
    options.where = idcwh::Where::id_range(first, last);
    compare(snapshot, model, queries, options,
            [&](std::size_t row) { return model.ids[row] >= first && model.ids[row] < last; });
    compare_without(
        snapshot, model, queries, options,
        [&](std::size_t row) { return model.ids[row] >= first && model.ids[row] < last; }, random);

    std::vector<std::uint8_t> bytes(n);
    std::vector<std::uint64_t> words((n + 63) / 64);
    const unsigned share = 1 + random() % 20;
    for (std::size_t row = 0; row < n; ++row) {
        bytes[row] = random() % share == 0 ? 7 : 0;
        words[row / 64] |= std::uint64_t{bytes[row] != 0} << row % 64;
    }
    options.where = idcwh::Where::of_bytes(bytes.data(), n);
    compare(snapshot, model, queries, options, [&](std::size_t row) { return bytes[row] != 0; });
    options.where = idcwh::Where::of_bitmap(words.data(), n);
    compare(snapshot, model, queries, options, [&](std::size_t row) { return bytes[row] != 0; });
}

}  // namespace check
