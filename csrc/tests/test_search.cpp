// Every search against a sort of all distances: widths, ids in any order, rows of every kind, threads, instruction
// sets.
#include <idcwh/isa.hpp>
#include <idcwh/search.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <utility>

#include "base/huge_array.hpp"
#include "check.hpp"
#include "scan/counting_merge.hpp"
#include "scan/plan.hpp"

namespace {

using Ranking = std::vector<std::pair<std::int32_t, std::int64_t>>;

// The oracle's own reading of which rows are eligible.
bool is_eligible(const idcwh::Rows& rows, std::size_t row) {
    using Kind = idcwh::Rows::Kind;
    if (rows.kind == Kind::range) return rows.begin <= row && row < rows.end;
    if (rows.kind == Kind::list)
        return std::binary_search(rows.list, rows.list + rows.count, static_cast<std::int64_t>(row));
    if (rows.kind == Kind::bitmap) return rows.bitmap[row / 64] & std::uint64_t{1} << row % 64;
    return rows.kind == Kind::all || rows.bytes[row];
}

// Every distance of every query, measured once.
std::vector<std::int32_t> all_distances(const idcwh::Codes& codes, const std::vector<std::uint8_t>& queries) {
    const std::size_t bytes = idcwh::code_bytes(codes.bits);
    std::vector<std::int32_t> distances;
    for (std::size_t at = 0; at < queries.size(); at += bytes)
        for (std::size_t row = 0; row < codes.size; ++row)
            distances.push_back(
                static_cast<std::int32_t>(check::distance(codes.data + row * bytes, queries.data() + at, bytes)));
    return distances;
}

Ranking brute_force(const idcwh::Codes& codes, const std::int32_t* distances, const idcwh::SearchOptions& options) {
    Ranking ranking;
    for (std::size_t row = 0; row < codes.size; ++row)
        if (is_eligible(options.rows, row))
            ranking.emplace_back(distances[row], options.ids ? options.ids[row] : static_cast<std::int64_t>(row));
    std::sort(ranking.begin(), ranking.end());
    return ranking;
}

bool equal(const Ranking& ranking, std::size_t count, const std::int32_t* distances, const std::int64_t* ids) {
    for (std::size_t i = 0; i < count; ++i)
        if (ranking[i].first != distances[i] || ranking[i].second != ids[i]) return false;
    return true;
}

// The hits of a query are the first `within` of its ranking.
bool equal_hits(const Ranking& ranking, std::size_t within, const idcwh::Hits& hits, std::size_t query) {
    const auto begin = static_cast<std::size_t>(hits.limits[query]);
    return static_cast<std::size_t>(hits.limits[query + 1]) - begin == within &&
           equal(ranking, within, hits.distances.data() + begin, hits.ids.data() + begin);
}

void compare(const idcwh::Codes& codes, const std::vector<std::uint8_t>& queries,
             const std::vector<std::int32_t>& measured, const idcwh::SearchOptions& options) {
    const std::size_t bytes = idcwh::code_bytes(codes.bits), nq = queries.size() / bytes;
    const std::size_t rows = idcwh::eligible(codes, options);
    std::vector<Ranking> expected(nq);
    for (std::size_t q = 0; q < nq; ++q) expected[q] = brute_force(codes, measured.data() + q * codes.size, options);

    for (const std::size_t k :
         {std::size_t{0}, std::size_t{1}, std::size_t{10}, codes.size / 4, codes.size, codes.size + 1}) {
        const std::size_t kept = std::min(k, rows);
        // Exactly the room that is needed: a write too far is one the address sanitizer sees.
        auto distances = std::make_unique<std::int32_t[]>(nq * kept);
        auto ids = std::make_unique<std::int64_t[]>(nq * kept);
        CHECK(idcwh::topk(codes, queries.data(), nq, k, distances.get(), ids.get(), options) == kept);
        for (std::size_t q = 0; q < nq; ++q)
            CHECK(equal(expected[q], kept, distances.get() + q * kept, ids.get() + q * kept));
        const auto ties = idcwh::topk_ties(codes, queries.data(), nq, k, options);
        CHECK(ties.limits.size() == nq + 1 && ties.limits[0] == 0);
        for (std::size_t q = 0; q < nq; ++q) {
            std::size_t within = kept;
            while (kept && within < rows && expected[q][within].first == expected[q][kept - 1].first) ++within;
            CHECK(equal_hits(expected[q], within, ties, q));
        }
    }
    std::vector<std::int32_t> distances(nq * rows);
    std::vector<std::int64_t> ids(nq * rows);
    CHECK(idcwh::rank(codes, queries.data(), nq, distances.data(), ids.data(), options) == rows);
    for (std::size_t q = 0; q < nq; ++q)
        CHECK(equal(expected[q], rows, distances.data() + q * rows, ids.data() + q * rows));

    std::vector<std::int64_t> counts(nq * (codes.bits + 1), -1);
    idcwh::histogram(codes, queries.data(), nq, counts.data(), options);
    for (std::size_t q = 0; q < nq; ++q) {
        std::vector<std::int64_t> of_query(codes.bits + 1);
        for (const auto& hit : expected[q]) ++of_query[static_cast<std::size_t>(hit.first)];
        CHECK(std::equal(of_query.begin(), of_query.end(),
                         counts.begin() + static_cast<std::ptrdiff_t>(q * (codes.bits + 1))));
    }

    for (const unsigned radius : {0u, codes.bits / 3, codes.bits / 2, codes.bits, codes.bits + 1}) {
        const auto result = idcwh::radius(codes, queries.data(), nq, radius, options);
        idcwh::count(codes, queries.data(), nq, radius, counts.data(), options);
        CHECK(result.limits.size() == nq + 1 && result.limits[0] == 0);
        for (std::size_t q = 0; q < nq; ++q) {
            const auto within =
                static_cast<std::size_t>(std::count_if(expected[q].begin(), expected[q].end(), [&](const auto& hit) {
                    return static_cast<unsigned>(hit.first) <= radius;
                }));
            CHECK(equal_hits(expected[q], within, result, q));
            CHECK(static_cast<std::size_t>(counts[q]) == within);
        }
    }
}

// The same rows in every way of saying so, and ranges.
struct RowKinds {
    std::vector<std::uint8_t> bytes;
    std::vector<std::int64_t> list;
    std::vector<std::uint64_t> bitmap;
    std::vector<idcwh::Rows> kinds;

    template <class Chosen>
    RowKinds(std::size_t n, Chosen chosen) : bytes(n), bitmap((n + 63) / 64, 0) {
        for (std::size_t row = 0; row < n; ++row) {
            if (!chosen(row)) continue;
            bytes[row] = static_cast<std::uint8_t>(row % 255 + 1);
            list.push_back(static_cast<std::int64_t>(row));
            bitmap[row / 64] |= std::uint64_t{1} << row % 64;
        }
        if (n % 64) bitmap.back() |= ~std::uint64_t{0} << n % 64;  // behind the last row: not looked at
        kinds = {idcwh::Rows::of_bytes(bytes.data()), idcwh::Rows::of_list(list.data(), list.size()),
                 idcwh::Rows::of_bitmap(bitmap.data())};
    }
    RowKinds(const RowKinds&) = delete;
};

void compare_all(unsigned bits, std::size_t n, std::size_t nq, std::uint32_t seed) {
    auto memory = check::random_codes(n, bits, seed);
    const std::size_t bytes = idcwh::code_bytes(bits);
    // A third of the codes repeat the first ones: ties, everywhere.
    for (std::size_t row = n - n / 3; row < n; ++row)
        std::copy_n(memory.begin() + static_cast<std::ptrdiff_t>(row % 5 * bytes), bytes,
                    memory.begin() + static_cast<std::ptrdiff_t>(row * bytes));
    const auto queries = check::random_codes(nq, bits, seed + 1);
    std::vector<std::int64_t> ids(n);
    std::iota(ids.begin(), ids.end(), std::int64_t{1} << 40);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(seed));
    const RowKinds thin(n, [](std::size_t row) { return row % 7 == 0 || (row > 100 && row < 140); });
    const RowKinds thick(n, [](std::size_t row) { return row % 9 != 4; });
    std::vector<idcwh::Rows> kinds = {idcwh::Rows::all(), idcwh::Rows::range(n / 3, 2 * n / 3 + 1)};
    kinds.insert(kinds.end(), thin.kinds.begin(), thin.kinds.end());
    kinds.insert(kinds.end(), thick.kinds.begin(), thick.kinds.end());
    const auto measured = all_distances({memory.data(), n, bits}, queries);
    for (const bool shuffled : {false, true})
        for (std::size_t i = 0; i < kinds.size(); ++i) {
            idcwh::SearchOptions options;
            options.threads = std::array{1u, 2u, 7u}[(i + shuffled + seed) % 3];
            options.ids = shuffled ? ids.data() : nullptr;
            options.rows = kinds[i];
            compare({memory.data(), n, bits}, queries, measured, options);
        }
}

// Selections that hold nothing, everything, the last row, and whole words: over more rows than a block has.
void compare_selections() {
    const std::size_t n = 9001;
    const auto memory = check::random_codes(n, 64, 5), queries = check::random_codes(9, 64, 6);
    const std::vector<std::uint8_t> one(queries.begin(), queries.begin() + 8);
    const idcwh::Codes codes{memory.data(), n, 64};
    const auto measured = all_distances(codes, queries);
    const auto check_all = [&](auto chosen) {
        const RowKinds selection(n, chosen);
        idcwh::SearchOptions options;
        for (const idcwh::Rows& rows : selection.kinds) {
            options.rows = rows;
            options.threads = 3;
            compare(codes, one, measured, options);
        }
        options.threads = 1;
        compare(codes, queries, measured, options);
    };
    check_all([](std::size_t) { return false; });
    check_all([](std::size_t) { return true; });
    check_all([](std::size_t row) { return row == 9000; });
    check_all([](std::size_t row) { return row / 64 % 3 == 1; });
    check_all([](std::size_t row) { return row > 200 && row < 8000; });
    check_all([](std::size_t row) { return row % 200 != 0; });
}

}  // namespace

// Sizes that a 32-bit program cannot address are refused, not cut off.
void refuse_sizes_beyond_memory() {
    const auto refused = [](auto action) {
        try {
            action();
        } catch (const std::bad_alloc&) {
            return true;
        }
        return false;
    };
    idcwh::Hits hits;
    hits.limits = {0, std::int64_t{1} << 62};
    CHECK(refused([&] { idcwh::make_room(hits); }));
    hits.limits = {0, 2, 3};
    idcwh::make_room(hits);
    CHECK(hits.ids.size() == 3 && hits.distances.size() == 3);
    const std::size_t most = ~std::size_t{0};
    CHECK(idcwh::product(most, 1) == most && idcwh::product(most, 0) == 0);
    CHECK(refused([&] { idcwh::product(most / 2 + 1, 2); }));
    CHECK(refused([&] { idcwh::HugeArray<std::uint64_t>(most / 8 + 2); }));
}

int main() {
    refuse_sizes_beyond_memory();
    for (const auto& isa : idcwh::isa_list()) {
        if (!isa.supported) continue;
        idcwh::isa_force(isa.name);
        CHECK(idcwh::isa_active() == isa.name);
        std::uint32_t seed = 1;
        for (const unsigned bits :
             {1u, 7u, 8u, 12u, 16u, 24u, 33u, 48u, 64u, 65u, 96u, 100u, 128u, 200u, 256u, 512u, 1024u})
            for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{300}, std::size_t{2000}})
                compare_all(bits, n, n == 2000 ? 2 : 9, ++seed);
        compare_all(64, 500, 70, 99);
        compare_selections();
    }
    return check::finish();
}
