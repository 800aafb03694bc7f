// Groups of equal codes compared with a sort of all distances, for every operation, width, filter, order of ids and
// number of threads.
#include <idcwh/search.hpp>

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>

#include "check.hpp"
#include "oracle.hpp"
#include "searching.hpp"
#include "structures/groups/search.hpp"

namespace {

using idcwh::Codes;
using idcwh::Groups;
using idcwh::GroupSearch;
using idcwh::Rows;
using idcwh::SearchOptions;
using Bytes = std::vector<std::uint8_t>;
using check::Ranking;
using check::rows_within;
using check::starts_with;

constexpr std::size_t no_limit = static_cast<std::size_t>(-1);

// Returns n codes with at most `distinct` different values, some of them much more frequent than others.
Bytes repeated_codes(std::size_t n, unsigned bits, std::size_t distinct, std::uint32_t seed) {
    const Bytes values = check::random_codes(distinct, bits, seed);
    const std::size_t bytes = idcwh::code_bytes(bits);
    std::mt19937 random(seed);
    Bytes codes;
    for (std::size_t row = 0; row < n; ++row) {
        const std::size_t value = random() % (1 + random() % distinct);
        codes.insert(codes.end(), &values[value * bytes], &values[value * bytes] + bytes);
    }
    return codes;
}

// Returns codes like those of a model with ten classes: ten centers, with bits flipped at random.
Bytes clustered_codes(std::size_t n, unsigned bits, double flipped, std::uint32_t seed) {
    const Bytes centers = check::random_codes(10, bits, seed);
    const std::size_t bytes = idcwh::code_bytes(bits);
    std::mt19937 random(seed);
    std::bernoulli_distribution flip(flipped);
    Bytes codes;
    for (std::size_t row = 0; row < n; ++row) {
        Bytes code(&centers[row % 10 * bytes], &centers[row % 10 * bytes] + bytes);
        for (unsigned bit = 0; bit < bits; ++bit)
            if (flip(random)) code[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
        codes.insert(codes.end(), code.begin(), code.end());
    }
    return codes;
}

void check_hits(const idcwh::Hits& hits, const std::vector<Ranking>& expected, const std::vector<std::size_t>& counts) {
    CHECK(hits.limits.size() == expected.size() + 1);
    CHECK(hits.limits[0] == 0);
    CHECK(hits.ids.size() == hits.distances.size());
    CHECK(hits.ids.size() == static_cast<std::size_t>(hits.limits.back()));
    for (std::size_t q = 0; q < expected.size(); ++q) {
        const auto at = static_cast<std::size_t>(hits.limits[q]);
        CHECK(static_cast<std::size_t>(hits.limits[q + 1]) - at == counts[q]);
        CHECK(starts_with(expected[q], counts[q], hits.distances.data() + at, hits.ids.data() + at));
    }
}

struct Case {
    const idcwh::Searcher& searcher;
    const Codes& codes;
    const Bytes& queries;
    const SearchOptions& options;
    std::vector<Ranking> expected = check::brute_force(codes, queries, options);

    std::size_t nq() const { return expected.size(); }
    check::Searching search() const { return {searcher, codes, options}; }

    void check_topk(std::size_t k) const {
        const std::size_t kept = std::min(k, expected[0].size());
        // Allocates exactly the required memory, so that the address sanitizer detects each write beyond it.
        auto distances = std::make_unique<std::int32_t[]>(nq() * kept);
        auto ids = std::make_unique<std::int64_t[]>(nq() * kept);
        CHECK(search().topk(queries.data(), nq(), k, distances.get(), ids.get()) == kept);
        for (std::size_t q = 0; q < nq(); ++q)
            CHECK(starts_with(expected[q], kept, distances.get() + q * kept, ids.get() + q * kept));

        std::vector<std::size_t> counts;
        for (const Ranking& ranking : expected) counts.push_back(check::rows_with_ties(ranking, k));
        check_hits(search().topk_ties(queries.data(), nq(), k), expected, counts);
    }

    void check_radius(unsigned radius) const {
        std::vector<std::size_t> within;
        for (const Ranking& ranking : expected) within.push_back(rows_within(ranking, radius));
        check_hits(search().radius(queries.data(), nq(), radius), expected, within);
        std::vector<std::int64_t> counts(nq(), -1);
        search().count(queries.data(), nq(), radius, counts.data());
        CHECK(std::equal(within.begin(), within.end(), counts.begin(),
                         [](std::size_t a, std::int64_t b) { return static_cast<std::int64_t>(a) == b; }));
    }

    void check_whole() const {
        const std::size_t rows = expected[0].size(), bins = codes.bits + 1;
        auto distances = std::make_unique<std::int32_t[]>(nq() * rows);
        auto ids = std::make_unique<std::int64_t[]>(nq() * rows);
        CHECK(search().rank(queries.data(), nq(), distances.get(), ids.get()) == rows);
        std::vector<std::int64_t> counts(nq() * bins, -1), wanted;
        search().histogram(queries.data(), nq(), counts.data());
        for (std::size_t q = 0; q < nq(); ++q) {
            CHECK(starts_with(expected[q], rows, distances.get() + q * rows, ids.get() + q * rows));
            const auto of_query = check::histogram(expected[q], codes.bits);
            wanted.insert(wanted.end(), of_query.begin(), of_query.end());
        }
        CHECK(counts == wanted);
    }

    void check_all() const {
        const std::size_t n = codes.size;
        for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{10}, n / 20, n - 1, n, n + 1})
            check_topk(k);
        for (const unsigned radius : {0u, 1u, codes.bits / 4, codes.bits / 2, codes.bits, codes.bits + 1})
            check_radius(radius);
        check_whole();
    }
};

// Filters of every kind.
struct Filters {
    std::vector<std::int64_t> list;
    std::vector<std::uint64_t> bitmap;
    Bytes bytes;
    std::vector<Rows> all;

    explicit Filters(std::size_t n) : bitmap(n / 64 + 1), bytes(n) {
        std::mt19937 random(static_cast<std::uint32_t>(n));
        for (std::size_t row = 0; row < n; ++row) {
            if (random() % 9 == 0) list.push_back(static_cast<std::int64_t>(row));
            if (random() % 4) bitmap[row / 64] |= std::uint64_t{1} << row % 64;
            bytes[row] = static_cast<std::uint8_t>(random() % 2 << random() % 8);
        }
        bitmap[n / 64] |= ~std::uint64_t{0} << n % 64;  // bits after the last row are ignored
        all = {Rows::all(),
               Rows::range(n / 3, n - n / 4),
               Rows::range(n / 2, 2 * n),
               Rows::range(n / 2, n / 2),
               Rows::range(2 * n, 3 * n),
               Rows::of_list(list.data(), list.size()),
               Rows::of_list(nullptr, 0),
               Rows::of_bitmap(bitmap.data()),
               Rows::of_bytes(bytes.data())};
    }
};

std::vector<std::int64_t> shuffled_ids(std::size_t n) {
    std::vector<std::int64_t> ids(n);
    std::iota(ids.begin(), ids.end(), std::int64_t{1} << 40);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(1));
    return ids;
}

// Returns some of the codes, the complement of one, random ones, and one query twice.
Bytes some_queries(const Bytes& memory, unsigned bits, std::size_t nq, std::uint32_t seed) {
    const std::size_t bytes = idcwh::code_bytes(bits);
    Bytes queries = check::random_codes(nq, bits, seed);
    std::copy_n(memory.begin(), std::min(memory.size(), nq / 2 * bytes), queries.begin());
    std::copy_n(queries.begin(), bytes, queries.end() - static_cast<std::ptrdiff_t>(bytes));
    return queries;
}

std::unique_ptr<Groups> build(const Codes& codes, const std::int64_t* ids, unsigned threads) {
    auto groups = Groups::build(codes, ids, no_limit, threads);
    CHECK(groups != nullptr);
    if (!groups) return nullptr;
    // Distinct codes are sorted by value, and each place is in the group of its code.
    const std::size_t bytes = idcwh::code_bytes(codes.bits);
    const auto value = [&](const std::uint8_t* code) {
        return std::string(std::reverse_iterator(code + bytes), std::reverse_iterator(code));
    };
    std::vector<std::string> rows, kept;
    for (std::size_t row = 0; row < codes.size; ++row) rows.push_back(value(codes.data + row * bytes));
    std::size_t seen = 0;
    for (idcwh::Group group = 0; group < groups->distinct(); ++group) {
        const std::uint8_t* code = groups->codes().data + group * bytes;
        kept.push_back(value(code));
        CHECK(groups->find(code) == group);
        for (const auto* place = groups->begin(group); place != groups->end(group); ++place, ++seen) {
            CHECK(rows[groups->row(*place)] == kept.back());
            CHECK(groups->with_group_of([&](const auto* group_of) { return group_of[*place]; }) == group);
        }
    }
    CHECK(seen == codes.size);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    CHECK(kept == rows);
    return groups;
}

void compare(const Bytes& memory, unsigned bits, std::size_t nq, bool filters) {
    const Codes codes{memory.data(), memory.size() / idcwh::code_bytes(bits), bits};
    const Bytes queries = some_queries(memory, bits, nq, bits);
    const auto ids = shuffled_ids(codes.size);
    const Filters filter(codes.size);
    for (const std::int64_t* order : {static_cast<const std::int64_t*>(nullptr), ids.data()}) {
        SearchOptions options;
        options.ids = order;
        unsigned threads = 1;
        const auto groups = build(codes, order, threads);
        if (!groups) return;
        for (const Rows& rows : filter.all) {
            options.rows = rows;
            options.threads = threads;
            for (const auto& searcher : GroupSearch::all_of(*groups))
                Case{*searcher, codes, queries, options}.check_all();
            threads = threads == 1 ? 2 : threads == 2 ? 7 : 1;
            if (!filters) break;
        }
    }
}

TEST("groups of each width and filter equal the oracle") {
    for (const unsigned bits :
         {1u, 2u, 7u, 8u, 9u, 12u, 16u, 17u, 20u, 24u, 31u, 33u, 48u, 64u, 65u, 100u, 128u, 200u, 256u, 300u, 1030u})
        compare(repeated_codes(600, bits, 60, bits), bits, 5, bits % 3 == 0 || bits == 16 || bits == 64);
    for (const unsigned bits : {12u, 48u, 64u, 130u}) {
        compare(clustered_codes(2000, bits, 0.5 / bits, bits), bits, 3, true);
        compare(clustered_codes(2000, bits, 0.5 / bits, bits), bits, 33, true);
        compare(clustered_codes(2000, bits, 0.5 / bits, bits), bits, 1, true);
        compare(repeated_codes(500, bits, 1, bits), bits, 3, false);  // all equal
        compare(repeated_codes(2, bits, 1, bits), bits, 3, false);
    }
}

TEST("groups of sorted codes and many queries equal the oracle") {
    Bytes memory = clustered_codes(3000, 64, 0.008, 5);
    std::vector<std::uint64_t> values(3000);
    std::copy_n(memory.data(), memory.size(), reinterpret_cast<std::uint8_t*>(values.data()));
    std::sort(values.begin(), values.end());
    std::copy_n(reinterpret_cast<const std::uint8_t*>(values.data()), memory.size(), memory.data());
    for (const std::size_t nq : {31u, 101u}) {
        const Bytes queries = some_queries(memory, 64, nq, 9);
        const Codes codes{memory.data(), 3000, 64};
        const auto groups = build(codes, nullptr, 2);
        if (!groups) continue;
        for (const unsigned threads : {1u, 7u}) {
            SearchOptions options;
            options.threads = threads;
            for (const auto& searcher : GroupSearch::all_of(*groups))
                Case{*searcher, codes, queries, options}.check_all();
        }
    }
}

// Enough codes for several parts, ranges and threads during the build, and for chunks during the search.
TEST("groups of 400000 codes equal the oracle") {
    const unsigned bits = 40;
    const Bytes memory = repeated_codes(400000, bits, 300000, 3);
    const Codes codes{memory.data(), 400000, bits};
    const Bytes queries = some_queries(memory, bits, 2, 4);
    const auto ids = shuffled_ids(codes.size);
    for (const unsigned threads : {1u, 2u, 7u}) {
        SearchOptions options;
        options.threads = threads;
        options.ids = threads == 2 ? ids.data() : nullptr;
        const auto groups = build(codes, options.ids, threads);
        if (!groups) continue;
        CHECK(groups->multi() != nullptr);
        for (const auto& searcher : GroupSearch::all_of(*groups)) {
            const Case wanted{*searcher, codes, queries, options};
            for (const std::size_t k : {1u, 10u, 1000u, 30000u}) wanted.check_topk(k);
            for (const unsigned radius : {1u, 12u}) wanted.check_radius(radius);
            wanted.check_whole();
        }
    }
}

// No search may read the huge group as a whole, since only its first ids are needed.
TEST("groups with one huge group return the first ids") {
    const unsigned bits = 32;
    Bytes memory(4 * 50000);
    for (std::size_t row = 0; row < 50000; ++row)  // distance 1 from zero: 32 codes, one of them in most rows
        memory[4 * row + (row % 64 ? 0 : row / 64 % 4)] = static_cast<std::uint8_t>(row % 64 ? 1 : 1 << row / 256 % 8);
    const Codes codes{memory.data(), 50000, bits};
    const auto groups = build(codes, nullptr, 1);
    if (groups) {
        const SearchOptions options;
        const Bytes query(4);
        const GroupSearch searcher(*groups, GroupSearch::Finder::scan);
        const Case wanted{searcher, codes, query, options};
        for (const std::size_t k : {1u, 63u, 65u, 1000u, 3000u}) wanted.check_topk(k);
    }
}

TEST("groups that cannot pay are not built") {
    const auto build_of = [](const Bytes& memory, unsigned bits, std::size_t allowed) {
        return Groups::build({memory.data(), memory.size() / idcwh::code_bytes(bits), bits}, nullptr, allowed, 1);
    };
    CHECK(!build_of({}, 64, no_limit));
    CHECK(!build_of(check::random_codes(1000, 64, 1), 64, no_limit));    // all distinct
    CHECK(!build_of(check::random_codes(200000, 64, 1), 64, no_limit));  // more than are counted exactly
    CHECK(build_of(check::random_codes(200000, 16, 1), 16, no_limit));
    const Bytes memory = repeated_codes(5000, 64, 30, 1);
    const auto groups = build_of(memory, 64, no_limit);
    CHECK((groups && build_of(memory, 64, groups->memory()) && !build_of(memory, 64, groups->memory() - 1)));
    CHECK((groups && groups->distinct() <= 30 && groups->memory() < 5000 * 7));
    CHECK((groups && groups->describe().find("5000 codes") != std::string::npos));
    // A set padding bit counts, and such a code is not addressed directly.
    const Bytes padded = {0x01, 0x01, 0x01, 0x81, 0x03, 0x03, 0x81, 0x01};
    const Codes codes{padded.data(), padded.size(), 2};
    const auto padding = Groups::build(codes, nullptr, no_limit, 1);
    CHECK((padding && !padding->table()));
}

template <class Call>
bool throws(idcwh::ErrorCode code, Call call) {
    try {
        call();
    } catch (const idcwh::Error& error) {
        return error.code() == code;
    }
    return false;
}

TEST("building groups can be interrupted") {
    const idcwh::Interrupt stop{[](void*) { return true; }, nullptr};
    const Bytes many = repeated_codes(2000000, 64, 1000, 1);
    const Codes lots{many.data(), 2000000, 64};
    for (const unsigned threads : {1u, 2u})
        CHECK(throws(idcwh::ErrorCode::interrupted, [&] { Groups::build(lots, nullptr, no_limit, threads, &stop); }));
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
