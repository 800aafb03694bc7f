// The oracle of snapshots: a plain list of (id, code), sorted for each query. Compares every operation of a snapshot
// with it, for every kind of selection.
#pragma once

#include <idcwh/index.hpp>

#include <algorithm>
#include <functional>
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
