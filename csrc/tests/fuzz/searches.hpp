// Every search of the C ABI, over an index or plain memory, compared with the model.
#pragma once

#include <idcwh/idcwh.h>

#include <memory>

#include "input.hpp"
#include "model.hpp"

namespace fuzz {

inline void require_ok(int status) {
    if (status != IDCWH_OK) std::fprintf(stderr, "status %d: %s\n", status, idcwh_last_error());
    REQUIRE(status == IDCWH_OK);
}

inline void require_hits(const std::vector<Ranking>& expected, const std::vector<std::size_t>& counts,
                         idcwh_hits* hits) {
    REQUIRE(idcwh_hits_queries(hits) == expected.size());
    const std::int64_t* limits = idcwh_hits_limits(hits);
    REQUIRE(limits[0] == 0);
    for (std::size_t q = 0; q < expected.size(); ++q) {
        REQUIRE(static_cast<std::size_t>(limits[q + 1] - limits[q]) == counts[q]);
        require_equal(expected[q], counts[q], idcwh_hits_distances(hits) + limits[q], idcwh_hits_ids(hits) + limits[q]);
    }
    idcwh_hits_free(hits);
}

// Compares all searches. Engine has the calls topk, topk_ties, radius, count, histogram, rank and eligible of one kind
// of store.
template <class Engine>
void compare(const Engine& engine, const Model& model, const std::vector<std::uint8_t>& eligible, Input& input) {
    const std::size_t nq = input.below(12), k = input.below(static_cast<unsigned>(model.size()) + 3);
    const unsigned radius = input.below(model.bits + 2);
    const auto queries = codes(input, nq, model.bits);
    std::vector<Ranking> expected(nq);
    std::vector<std::size_t> near(nq), ties(nq);
    for (std::size_t q = 0; q < nq; ++q) {
        expected[q] = ranking(model, queries.data() + q * model.bytes(), eligible);
        near[q] = within(expected[q], radius);
        const std::size_t kept = std::min(k, expected[q].size());
        ties[q] = kept ? within(expected[q], expected[q][kept - 1].first) : 0;
    }
    const auto rows = static_cast<std::size_t>(std::count(eligible.begin(), eligible.end(), 1));
    std::size_t kept = 0;
    require_ok(engine.eligible(&kept));
    REQUIRE(kept == rows);

    // Allocates exactly the required memory, so that the address sanitizer detects each write beyond it.
    const std::size_t width = model.bits + 1, most = std::min(k, rows);
    auto distances = std::make_unique<std::int32_t[]>(nq * most);
    auto ids = std::make_unique<std::int64_t[]>(nq * most);
    auto counts = std::make_unique<std::int64_t[]>(nq * width);
    idcwh_hits* hits = nullptr;
    switch (input.below(6)) {
        case 0:
            require_ok(engine.topk(queries.data(), nq, k, distances.get(), ids.get(), &kept));
            REQUIRE(kept == most);
            for (std::size_t q = 0; q < nq; ++q)
                require_equal(expected[q], most, distances.get() + q * most, ids.get() + q * most);
            break;
        case 1:
            require_ok(engine.topk_ties(queries.data(), nq, k, &hits));
            require_hits(expected, ties, hits);
            break;
        case 2:
            require_ok(engine.radius(queries.data(), nq, radius, &hits));
            require_hits(expected, near, hits);
            break;
        case 3:
            require_ok(engine.count(queries.data(), nq, radius, counts.get()));
            for (std::size_t q = 0; q < nq; ++q) REQUIRE(counts[q] == static_cast<std::int64_t>(near[q]));
            break;
        case 4:
            require_ok(engine.histogram(queries.data(), nq, counts.get()));
            for (std::size_t q = 0; q < nq; ++q)
                for (std::size_t d = 0, seen = 0; d < width; ++d) {
                    seen += static_cast<std::size_t>(counts[q * width + d]);
                    REQUIRE(seen == within(expected[q], static_cast<std::int64_t>(d)));
                }
            break;
        default:
            distances = std::make_unique<std::int32_t[]>(nq * rows);
            ids = std::make_unique<std::int64_t[]>(nq * rows);
            require_ok(engine.rank(queries.data(), nq, distances.get(), ids.get(), &kept));
            REQUIRE(kept == rows);
            for (std::size_t q = 0; q < nq; ++q)
                require_equal(expected[q], rows, distances.get() + q * rows, ids.get() + q * rows);
    }
}

}  // namespace fuzz
