// Every search compared with a sort of all distances, for widths, orders of ids, kinds of rows, threads and instruction
// sets.
#include <idcwh/index.hpp>
#include <idcwh/isa.hpp>
#include <idcwh/search.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "base/huge_array.hpp"
#include "check.hpp"
#include "oracle.hpp"
#include "scan/counting_merge.hpp"
#include "scan/plan.hpp"

namespace {

using check::Ranking;

// Returns true if the hits of a query are the first `within` of its ranking.
bool equal_hits(const Ranking& ranking, std::size_t within, const idcwh::Hits& hits, std::size_t query) {
    const auto begin = static_cast<std::size_t>(hits.limits[query]);
    return static_cast<std::size_t>(hits.limits[query + 1]) - begin == within &&
           check::starts_with(ranking, within, hits.distances.data() + begin, hits.ids.data() + begin);
}

void compare(const idcwh::Codes& codes, const std::vector<std::uint8_t>& queries,
             const std::vector<std::int32_t>& measured, const idcwh::SearchOptions& options) {
    const std::size_t bytes = idcwh::code_bytes(codes.bits), nq = queries.size() / bytes;
    const std::size_t rows = idcwh::eligible(codes, options);
    std::vector<Ranking> expected(nq);
    for (std::size_t q = 0; q < nq; ++q)
        expected[q] = check::brute_force(codes, measured.data() + q * codes.size, options);

    for (const std::size_t k :
         {std::size_t{0}, std::size_t{1}, std::size_t{10}, codes.size / 4, codes.size, codes.size + 1}) {
        const std::size_t kept = std::min(k, rows);
        // Allocates exactly the required memory, so that the address sanitizer detects each write beyond it.
        auto distances = std::make_unique<std::int32_t[]>(nq * kept);
        auto ids = std::make_unique<std::int64_t[]>(nq * kept);
        CHECK(idcwh::topk(codes, queries.data(), nq, k, distances.get(), ids.get(), options) == kept);
        for (std::size_t q = 0; q < nq; ++q)
            CHECK(check::starts_with(expected[q], kept, distances.get() + q * kept, ids.get() + q * kept));
        const auto ties = idcwh::topk_ties(codes, queries.data(), nq, k, options);
        CHECK(ties.limits.size() == nq + 1);
        CHECK(ties.limits[0] == 0);
        for (std::size_t q = 0; q < nq; ++q) {
            CHECK(equal_hits(expected[q], check::rows_with_ties(expected[q], k), ties, q));
        }
    }
    std::vector<std::int32_t> distances(nq * rows);
    std::vector<std::int64_t> ids(nq * rows);
    CHECK(idcwh::rank(codes, queries.data(), nq, distances.data(), ids.data(), options) == rows);
    for (std::size_t q = 0; q < nq; ++q)
        CHECK(check::starts_with(expected[q], rows, distances.data() + q * rows, ids.data() + q * rows));

    std::vector<std::int64_t> counts(nq * (codes.bits + 1), -1);
    idcwh::histogram(codes, queries.data(), nq, counts.data(), options);
    for (std::size_t q = 0; q < nq; ++q) {
        const auto of_query = check::histogram(expected[q], codes.bits);
        CHECK(std::equal(of_query.begin(), of_query.end(),
                         counts.begin() + static_cast<std::ptrdiff_t>(q * (codes.bits + 1))));
    }

    for (const unsigned radius : {0u, codes.bits / 3, codes.bits / 2, codes.bits, codes.bits + 1}) {
        const auto result = idcwh::radius(codes, queries.data(), nq, radius, options);
        idcwh::count(codes, queries.data(), nq, radius, counts.data(), options);
        CHECK(result.limits.size() == nq + 1);
        CHECK(result.limits[0] == 0);
        for (std::size_t q = 0; q < nq; ++q) {
            const std::size_t within = check::rows_within(expected[q], radius);
            CHECK(equal_hits(expected[q], within, result, q));
            CHECK(static_cast<std::size_t>(counts[q]) == within);
        }
    }
}

// The same rows in every form, and ranges.
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
        if (n % 64) bitmap.back() |= ~std::uint64_t{0} << n % 64;  // bits after the last row are ignored
        kinds = {idcwh::Rows::of_bytes(bytes.data()), idcwh::Rows::of_list(list.data(), list.size()),
                 idcwh::Rows::of_bitmap(bitmap.data())};
    }
    RowKinds(const RowKinds&) = delete;
};

void compare_all(unsigned bits, std::size_t n, std::size_t nq, std::uint32_t seed) {
    auto memory = check::random_codes(n, bits, seed);
    const std::size_t bytes = idcwh::code_bytes(bits);
    // A third of the codes repeat the first ones, so ties are frequent.
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
    const auto measured = check::all_distances({memory.data(), n, bits}, queries);
    for (const bool shuffled : {false, true})
        for (std::size_t i = 0; i < kinds.size(); ++i) {
            idcwh::SearchOptions options;
            options.threads = std::array{1u, 2u, 7u}[(i + shuffled + seed) % 3];
            options.ids = shuffled ? ids.data() : nullptr;
            options.rows = kinds[i];
            compare({memory.data(), n, bits}, queries, measured, options);
        }
}

// Compares selections of no row, all rows, the last row and whole words, over more rows than a block has.
void compare_selections() {
    const std::size_t n = 9001;
    const auto memory = check::random_codes(n, 64, 5), queries = check::random_codes(9, 64, 6);
    const std::vector<std::uint8_t> one(queries.begin(), queries.begin() + 8);
    const idcwh::Codes codes{memory.data(), n, 64};
    const auto measured = check::all_distances(codes, queries);
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

// Sizes that a 32-bit program cannot address raise an error and are not truncated.
TEST("sizes beyond the address space throw bad_alloc") {
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
    CHECK(hits.ids.size() == 3);
    CHECK(hits.distances.size() == 3);
    const std::size_t most = ~std::size_t{0};
    CHECK(idcwh::product(most, 1) == most);
    CHECK(idcwh::product(most, 0) == 0);
    CHECK(refused([&] { idcwh::product(most / 2 + 1, 2); }));
    CHECK(refused([&] { idcwh::HugeArray<std::uint64_t>(most / 8 + 2); }));
}

template <class Body>
void on_each_instruction_set(Body body) {
    for (const auto& isa : idcwh::isa_list()) {
        if (!isa.supported) continue;
        idcwh::isa_force(isa.name);
        CHECK(idcwh::isa_active() == isa.name);
        body();
    }
    idcwh::isa_force("auto");
}

// The message of the error that the call throws.
template <class Call>
std::string message_of(Call call) {
    try {
        call();
    } catch (const idcwh::Error& error) {
        return error.what();
    }
    return "";
}

TEST("a padding bit that is set is an error that names the row") {
    constexpr unsigned bits = 20;
    std::vector<std::uint8_t> memory(3 * 100), padded(3 * 4);
    padded[8] = 0x10;
    std::vector<std::int32_t> distances(100 * 4);
    std::vector<std::int64_t> ids(100 * 4), counts(4 * (bits + 1));
    idcwh::Index index(bits);
    index.add(memory.data(), 100);
    const auto view = index.snapshot();
    const idcwh::Codes codes{memory.data(), 100, bits};
    const auto* const queries = padded.data();
    int refused = 0;
    const auto expect = [&](const char* name, int row, auto call) {
        const std::string text = std::string(name) + ": is invalid (found nonzero padding bits in row ";
        CHECK(message_of(call).find(text + std::to_string(row) + ",") == 0);
        ++refused;
    };
    expect("queries", 2, [&] { idcwh::topk(codes, queries, 4, 3, distances.data(), ids.data()); });
    expect("queries", 2, [&] { idcwh::topk_ties(codes, queries, 4, 3); });
    expect("queries", 2, [&] { idcwh::radius(codes, queries, 4, 3); });
    expect("queries", 2, [&] { idcwh::count(codes, queries, 4, 3, counts.data()); });
    expect("queries", 2, [&] { idcwh::histogram(codes, queries, 4, counts.data()); });
    expect("queries", 2, [&] { idcwh::rank(codes, queries, 4, distances.data(), ids.data()); });
    expect("queries", 2, [&] { view.topk(queries, 4, 3, distances.data(), ids.data()); });
    expect("queries", 2, [&] { view.topk_ties(queries, 4, 3); });
    expect("queries", 2, [&] { view.radius(queries, 4, 3); });
    expect("queries", 2, [&] { view.count(queries, 4, 3, counts.data()); });
    expect("queries", 2, [&] { view.histogram(queries, 4, counts.data()); });
    expect("queries", 2, [&] { view.rank(queries, 4, distances.data(), ids.data()); });
    // Distances above the bits have no count.
    memory[3 * 70 + 2] = 0x80;
    expect("codes", 70, [&] { idcwh::histogram(codes, memory.data(), 1, counts.data()); });
    expect("codes", 70, [&] { idcwh::rank(codes, memory.data(), 1, distances.data(), ids.data()); });
    expect("codes", 70, [&] { index.add(memory.data(), 100); });
    // A distance of 65,536 would not fit 16 bits.
    const std::vector<std::uint8_t> ones(8192 * 2, 0xff), zero(8192);
    for (const unsigned wide : {65529u, 65535u}) {
        const idcwh::Codes two{ones.data(), 2, wide};
        expect("codes", 0, [&] { idcwh::topk(two, zero.data(), 1, 1, distances.data(), ids.data()); });
        expect("codes", 0, [&] { idcwh::radius(two, zero.data(), 1, 3); });
        expect("codes", 0, [&] { idcwh::count(two, zero.data(), 1, 3, counts.data()); });
    }
    CHECK(refused == 21);
}

TEST("every search equals the oracle for each width, number of codes and kind of rows") {
    on_each_instruction_set([] {
        std::uint32_t seed = 1;
        for (const unsigned bits :
             {1u, 7u, 8u, 12u, 16u, 24u, 33u, 48u, 64u, 65u, 96u, 100u, 128u, 200u, 256u, 512u, 1024u})
            for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{300}, std::size_t{2000}})
                compare_all(bits, n, n == 2000 ? 2 : 9, ++seed);
    });
}

TEST("every search of 70 queries equals the oracle") {
    on_each_instruction_set([] { compare_all(64, 500, 70, 99); });
}

TEST("every search of no, all and some rows of several blocks equals the oracle") {
    on_each_instruction_set(compare_selections);
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
