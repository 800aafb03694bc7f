// count_pairs compared with plain loops and a sort, for both forms of labels, repeated codes, threads, instruction sets
// and invalid arguments.
#include <idcwh/isa.hpp>
#include <idcwh/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "check.hpp"
#include "oracle.hpp"

namespace {

using idcwh::Labels;

struct Side {
    std::vector<std::uint8_t> codes;
    std::vector<std::int64_t> classes;
    std::vector<std::uint8_t> sets;
    std::size_t size, set_classes;
    unsigned bits;

    idcwh::LabelledCodes view(bool as_sets) const {
        return {{codes.data(), size, bits},
                as_sets ? Labels::of_sets(sets.data(), set_classes) : Labels::of_classes(classes.data())};
    }
    bool set_has(std::size_t row, std::size_t number) const {
        return sets[row * ((set_classes + 7) / 8) + number / 8] >> number % 8 & 1;
    }
};

// Makes codes and labels. distinct > 0: repeats that many codes.
Side make(std::size_t size, unsigned bits, std::size_t distinct, std::size_t set_classes, std::uint32_t seed) {
    std::mt19937 random(seed);
    Side side{check::random_codes(size, bits, seed), {}, {}, size, set_classes, bits};
    const std::size_t bytes = idcwh::code_bytes(bits), set_bytes = (set_classes + 7) / 8;
    if (distinct) {
        const auto palette = check::random_codes(distinct, bits, 99);  // the same for queries and database
        for (std::size_t i = 0; i < size; ++i)
            std::copy_n(palette.begin() + random() % distinct * bytes, bytes, side.codes.begin() + i * bytes);
    }
    side.sets.resize(size * set_bytes);
    for (std::size_t i = 0; i < size; ++i) {
        side.classes.push_back(static_cast<std::int64_t>(random() % 5) * 1'000'000'007 - 2'000'000'014);
        for (std::size_t c = random() % 4; c < 3 && set_classes; ++c) {  // zero to three classes
            const std::size_t number = random() % set_classes;
            side.sets[i * set_bytes + number / 8] |= static_cast<std::uint8_t>(1 << number % 8);
        }
    }
    return side;
}

void compare(const Side& queries, const Side& database, bool as_sets, const idcwh::PairOptions& options) {
    const auto counts = idcwh::count_pairs(queries.view(as_sets), database.view(as_sets), options);
    CHECK(counts.distances == queries.bits + 1u);
    CHECK(counts.row.size() == queries.size);
    std::set<std::int64_t> rows(counts.row.begin(), counts.row.end());
    CHECK(counts.items.size() == rows.size() * counts.distances);
    CHECK(counts.ranked_sum.size() == (options.ranked ? rows.size() * (options.cut_count + 1) : 0));
    const auto rankings = check::brute_force({database.codes.data(), database.size, queries.bits}, queries.codes);
    for (std::size_t q = 0; q < queries.size; ++q) {
        const check::Ranking& ranking = rankings[q];
        std::vector<std::int64_t> items(counts.distances), relevant(counts.distances), hits(options.cut_count);
        std::vector<double> sums(options.cut_count + 1);
        std::int64_t so_far = 0;
        for (std::size_t rank = 1; rank <= ranking.size(); ++rank) {
            const auto distance = static_cast<std::size_t>(ranking[rank - 1].first);
            const auto row = static_cast<std::size_t>(ranking[rank - 1].second);
            bool shared = !as_sets && queries.classes[q] == database.classes[row];
            for (std::size_t c = 0; as_sets && c < queries.set_classes; ++c)
                shared = shared || (queries.set_has(q, c) && database.set_has(row, c));
            ++items[distance];
            if (!shared) continue;
            ++relevant[distance];
            const double precision = static_cast<double>(++so_far) / static_cast<double>(rank);
            for (std::size_t i = 0; i < options.cut_count; ++i)
                if (rank <= options.cuts[i]) sums[i] += precision, ++hits[i];
            sums.back() += precision;
        }
        CHECK(std::equal(items.begin(), items.end(), counts.items_of(q)));
        CHECK(std::equal(relevant.begin(), relevant.end(), counts.relevant_of(q)));
        if (!options.ranked) continue;
        const auto at = static_cast<std::size_t>(counts.row[q]);
        for (std::size_t i = 0; i < sums.size(); ++i)
            CHECK(std::abs(counts.ranked_sum[at * sums.size() + i] - sums[i]) <= 1e-12 * sums[i]);
        for (std::size_t i = 0; i < hits.size(); ++i) CHECK(counts.ranked_hits[at * hits.size() + i] == hits[i]);
    }
}

void compare_all(const Side& queries, const Side& database) {
    std::size_t cuts[] = {1, 2, 10, 10, 100, database.size + 1};
    std::sort(std::begin(cuts), std::end(cuts));
    for (const bool as_sets : {false, true})
        for (const unsigned threads : {1u, 2u, 7u})
            for (const bool ranked : {false, true}) {
                idcwh::PairOptions options;
                options.threads = threads;
                options.ranked = ranked;
                if (ranked) options.cuts = cuts, options.cut_count = std::size(cuts);
                compare(queries, database, as_sets, options);
            }
}

// Leave-one-out compared with one query at a time against the other items.
void compare_without_itself(const Side& side, bool as_sets) {
    const std::size_t cuts[] = {1, 10, 10, side.size};
    idcwh::PairOptions options;
    options.ranked = true, options.cuts = cuts, options.cut_count = std::size(cuts);
    options.leave_one_out = true;
    const auto counts = idcwh::count_pairs(side.view(as_sets), side.view(as_sets), options);
    CHECK(counts.ranked_sum.size() == side.size * (options.cut_count + 1));
    options.leave_one_out = false;
    const std::size_t bytes = idcwh::code_bytes(side.bits), set_bytes = (side.set_classes + 7) / 8;
    for (std::size_t q = 0; q < side.size; ++q) {
        Side one = side, others = side;
        const auto part = [q](auto& values, std::size_t width, bool only) {
            const auto begin = values.begin() + static_cast<std::ptrdiff_t>(q * width);
            const auto end = begin + static_cast<std::ptrdiff_t>(width);
            if (!only) return void(values.erase(begin, end));
            values.erase(end, values.end());
            values.erase(values.begin(), begin);
        };
        for (Side* its : {&one, &others}) {
            part(its->codes, bytes, its == &one);
            part(its->classes, 1, its == &one);
            part(its->sets, set_bytes, its == &one);
        }
        one.size = 1, others.size = side.size - 1;
        const auto expected = idcwh::count_pairs(one.view(as_sets), others.view(as_sets), options);
        CHECK(std::equal(expected.items.begin(), expected.items.end(), counts.items_of(q)));
        CHECK(std::equal(expected.relevant.begin(), expected.relevant.end(), counts.relevant_of(q)));
        for (std::size_t i = 0; i <= options.cut_count; ++i)
            CHECK(std::abs(counts.ranked_sum[q * (options.cut_count + 1) + i] - expected.ranked_sum[i]) <= 1e-9);
        for (std::size_t i = 0; i < options.cut_count; ++i)
            CHECK(counts.ranked_hits[q * options.cut_count + i] == expected.ranked_hits[i]);
    }
}

TEST("count_pairs with leave_one_out equals one query among the others") {
    for (const unsigned bits : {1u, 48u, 200u})
        for (const std::size_t distinct : {0u, 1u, 9u})
            for (const bool as_sets : {false, true}) compare_without_itself(make(90, bits, distinct, 7, bits), as_sets);
    const Side side = make(5, 8, 0, 3, 1), other = make(5, 8, 0, 3, 1);
    idcwh::PairOptions options;
    options.leave_one_out = true;
    bool thrown = false;
    try {
        idcwh::count_pairs(side.view(false), other.view(false), options);
    } catch (const idcwh::Error& error) {
        thrown = error.code() == idcwh::ErrorCode::invalid_argument;
    }
    CHECK(thrown);
}

// Results are equal bit for bit, whatever kernels and threads compute them.
TEST("count_pairs is the same, bit for bit, for threads and instruction sets") {
    const Side queries = make(300, 48, 0, 3, 5), database = make(4000, 48, 0, 3, 6);
    const std::size_t cuts[] = {50, 1000};
    idcwh::PairOptions options;
    options.ranked = true, options.cuts = cuts, options.cut_count = 2, options.threads = 1;
    const auto one = idcwh::count_pairs(queries.view(false), database.view(false), options);
    for (const auto& isa : idcwh::isa_list()) {
        if (!isa.supported) continue;
        idcwh::isa_force(isa.name);
        options.threads = 3;
        const auto other = idcwh::count_pairs(queries.view(false), database.view(false), options);
        CHECK(one.items == other.items);
        CHECK(one.relevant == other.relevant);
        CHECK(one.ranked_sum == other.ranked_sum);
        CHECK(one.ranked_hits == other.ranked_hits);
    }
    idcwh::isa_force("auto");
}

template <class Call>
void refused(idcwh::ErrorCode code, const char* part, Call call) {
    try {
        call();
        check::fail(__FILE__, __LINE__, part);
    } catch (const idcwh::Error& error) {
        CHECK(error.code() == code);
        if (std::string(error.what()).find(part) == std::string::npos) check::fail(__FILE__, __LINE__, error.what());
    }
}

TEST("count_pairs with invalid arguments raises an error") {
    const auto bad = idcwh::ErrorCode::invalid_argument;
    Side queries = make(3, 12, 0, 13, 1), database = make(20, 12, 0, 13, 2);
    const auto count = [&](const idcwh::LabelledCodes& q, const idcwh::LabelledCodes& d,
                           const idcwh::PairOptions& options = {}) { idcwh::count_pairs(q, d, options); };
    auto wider = queries.view(false);
    wider.codes.bits = 13;
    refused(bad, "found 12, expected 13", [&] { count(database.view(false), wider); });
    refused(bad, "does not match database.labels", [&] { count(queries.view(false), database.view(true)); });
    auto fewer = queries.view(true);
    fewer.labels.set_classes = 12;
    refused(bad, "does not match database.labels", [&] { count(fewer, database.view(true)); });
    auto unlabelled = queries.view(false);
    unlabelled.labels = Labels::of_sets(nullptr, 13);
    refused(bad, "queries.labels: is invalid (found null", [&] { count(unlabelled, database.view(false)); });
    const std::size_t cuts[] = {5, 4}, zero[] = {0};
    idcwh::PairOptions options;
    options.ranked = true, options.cuts = cuts, options.cut_count = 2;
    refused(bad, "cuts[1]: is invalid (found 4", [&] { count(queries.view(false), database.view(false), options); });
    options.cuts = zero, options.cut_count = 1;
    refused(bad, "cuts[0]: is invalid (found 0", [&] { count(queries.view(false), database.view(false), options); });
    database.sets[1] |= 0x20;  // class 13 of 13
    refused(bad, "behind class 12 in row 0", [&] { count(queries.view(true), database.view(true)); });
    database.codes[3] |= 0x10;  // bit 12 of 12
    refused(bad, "database.codes: is invalid (found nonzero padding",
            [&] { count(queries.view(false), database.view(false)); });
    const idcwh::Interrupt now{[](void*) { return true; }, nullptr};
    const Side many = make(8000, 64, 0, 3, 5);
    idcwh::PairOptions interrupted;
    interrupted.interrupt = &now;
    for (const unsigned threads : {1u, 2u}) {
        interrupted.threads = threads;
        refused(idcwh::ErrorCode::interrupted, "interrupted",
                [&] { count(many.view(false), many.view(false), interrupted); });
    }
}

TEST("count_distinct equals a set of the codes") {
    for (const unsigned bits : {1u, 12u, 64u, 300u}) {
        const auto codes = make(5000, bits, 1234, 0, bits).codes;
        const std::size_t bytes = idcwh::code_bytes(bits);
        std::set<std::vector<std::uint8_t>> rows;
        for (std::size_t i = 0; i < 5000; ++i) rows.emplace(codes.begin() + i * bytes, codes.begin() + (i + 1) * bytes);
        CHECK(idcwh::count_distinct({codes.data(), 5000, bits}) == rows.size());
    }
    CHECK(idcwh::count_distinct({nullptr, 0, 8}) == 0);
}

TEST("bit_pairs equals plain loops") {
    for (const unsigned bits : {1u, 12u, 48u, 100u, 260u})
        for (const std::size_t size : {0u, 5u, 5000u}) {
            const auto codes = check::random_codes(size, bits, bits);
            std::vector<std::int64_t> expected(std::size_t{bits} * bits), found(expected.size());
            std::vector<unsigned> set;
            for (std::size_t i = 0; i < size; ++i) {
                set.clear();
                for (unsigned bit = 0; bit < bits; ++bit)
                    if (codes[i * idcwh::code_bytes(bits) + bit / 8] >> bit % 8 & 1) set.push_back(bit);
                for (const unsigned a : set)
                    for (const unsigned b : set) ++expected[std::size_t{a} * bits + b];
            }
            for (const unsigned threads : {1u, 3u}) {
                idcwh::bit_pairs({codes.data(), size, bits}, found.data(), threads);
                CHECK(found == expected);
            }
        }
    const auto many = check::random_codes(70'000, 9, 1);  // more than are transposed at once
    std::vector<std::int64_t> found(81), expected(81);
    idcwh::bit_pairs({many.data(), 70'000, 9}, found.data());
    for (std::size_t i = 0; i < 70'000; ++i)
        for (unsigned a = 0; a < 9; ++a)
            for (unsigned b = 0; b < 9; ++b)
                expected[9 * a + b] += (many[2 * i + a / 8] >> a % 8) & (many[2 * i + b / 8] >> b % 8) & 1;
    CHECK(found == expected);
}

TEST("count_pairs equals plain loops for each width and number of distinct codes") {
    std::uint32_t seed = 0;
    for (const unsigned bits : {1u, 12u, 48u, 64u, 129u, 520u})
        for (const std::size_t distinct : {0u, 1u, 37u}) {
            ++seed;
            compare_all(make(17, bits, distinct, 11, 2 * seed), make(300, bits, distinct, 11, 2 * seed + 1));
        }
}

TEST("count_pairs of several blocks and of many classes equals plain loops") {
    compare_all(make(9, 24, 0, 70, 1), make(2500, 24, 0, 70, 2));  // more rows than a block, more classes than a word
    compare_all(make(9, 24, 300, 8, 1), make(2500, 24, 300, 8, 2));
}

TEST("count_pairs without queries, codes or classes equals plain loops") {
    compare_all(make(0, 24, 0, 8, 1), make(10, 24, 0, 8, 2));
    compare_all(make(5, 24, 0, 8, 1), make(0, 24, 0, 8, 2));
    compare_all(make(5, 24, 0, 0, 1), make(10, 24, 0, 0, 2));  // sets without classes
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
