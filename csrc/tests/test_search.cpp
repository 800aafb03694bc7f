// top-k, radius and rank against a sort of all distances: widths, ids in any order, masks, threads, instruction sets.
#include <idcwh/isa.hpp>
#include <idcwh/search.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "check.hpp"

namespace {

using Ranking = std::vector<std::pair<std::int32_t, std::int64_t>>;

Ranking brute_force(const idcwh::Codes& codes, const std::uint8_t* query, const idcwh::SearchOptions& options) {
    Ranking ranking;
    const std::size_t bytes = idcwh::code_bytes(codes.bits);
    for (std::size_t row = 0; row < codes.size; ++row)
        if (!options.rows.bytes || options.rows.bytes[row])
            ranking.emplace_back(check::distance(codes.data + row * bytes, query, bytes),
                                 options.ids ? options.ids[row] : static_cast<std::int64_t>(row));
    std::sort(ranking.begin(), ranking.end());
    return ranking;
}

bool equal(const Ranking& ranking, std::size_t count, const std::int32_t* distances, const std::int64_t* ids) {
    for (std::size_t i = 0; i < count; ++i)
        if (ranking[i].first != distances[i] || ranking[i].second != ids[i]) return false;
    return true;
}

void compare(const idcwh::Codes& codes, const std::vector<std::uint8_t>& queries, const idcwh::SearchOptions& options) {
    const std::size_t bytes = idcwh::code_bytes(codes.bits), nq = queries.size() / bytes;
    const std::size_t rows = idcwh::eligible(codes, options);
    std::vector<Ranking> expected(nq);
    for (std::size_t q = 0; q < nq; ++q) expected[q] = brute_force(codes, queries.data() + q * bytes, options);

    for (const std::size_t k :
         {std::size_t{0}, std::size_t{1}, std::size_t{10}, codes.size / 4, codes.size, codes.size + 1}) {
        const std::size_t kept = std::min(k, rows);
        // Exactly the room that is needed: a write too far is one the address sanitizer sees.
        auto distances = std::make_unique<std::int32_t[]>(nq * kept);
        auto ids = std::make_unique<std::int64_t[]>(nq * kept);
        CHECK(idcwh::topk(codes, queries.data(), nq, k, distances.get(), ids.get(), options) == kept);
        for (std::size_t q = 0; q < nq; ++q)
            CHECK(equal(expected[q], kept, distances.get() + q * kept, ids.get() + q * kept));
    }
    std::vector<std::int32_t> distances(nq * rows);
    std::vector<std::int64_t> ids(nq * rows);
    CHECK(idcwh::rank(codes, queries.data(), nq, distances.data(), ids.data(), options) == rows);
    for (std::size_t q = 0; q < nq; ++q)
        CHECK(equal(expected[q], rows, distances.data() + q * rows, ids.data() + q * rows));

    for (const unsigned radius : {0u, codes.bits / 3, codes.bits / 2, codes.bits, codes.bits + 1}) {
        const auto result = idcwh::radius(codes, queries.data(), nq, radius, options);
        CHECK(result.limits.size() == nq + 1 && result.limits[0] == 0);
        for (std::size_t q = 0; q < nq; ++q) {
            const auto within =
                static_cast<std::size_t>(std::count_if(expected[q].begin(), expected[q].end(), [&](const auto& hit) {
                    return static_cast<unsigned>(hit.first) <= radius;
                }));
            const auto begin = static_cast<std::size_t>(result.limits[q]);
            CHECK(static_cast<std::size_t>(result.limits[q + 1]) - begin == within);
            CHECK(equal(expected[q], within, result.distances.data() + begin, result.ids.data() + begin));
        }
    }
}

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
    std::vector<std::uint8_t> mask(n);
    for (std::size_t row = 0; row < n; ++row) mask[row] = row % 7 == 0 || (row > 100 && row < 140);
    for (const unsigned threads : {1u, 2u, 7u})
        for (const bool shuffled : {false, true})
            for (const bool masked : {false, true}) {
                idcwh::SearchOptions options;
                options.threads = threads;
                options.ids = shuffled ? ids.data() : nullptr;
                if (masked) options.rows = idcwh::Rows::of_bytes(mask.data());
                compare({memory.data(), n, bits}, queries, options);
            }
}

}  // namespace

int main() {
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
    }
    return check::finish();
}
