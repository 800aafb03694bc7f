// The multi-index compared with the scan and a bit-by-bit loop, for widths, kinds of data, filters, ids, budgets and
// threads.
#include <idcwh/search.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>

#include "check.hpp"
#include "oracle.hpp"
#include "scan/k_best.hpp"
#include "searching.hpp"
#include "structures/multi_index/queries.hpp"
#include "structures/multi_index/shells.hpp"

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr std::size_t no_limit = static_cast<std::size_t>(-1);
using Bytes = std::vector<std::uint8_t>;

struct Data {
    const char* kind;
    unsigned bits;
    Bytes memory;
    idcwh::Codes codes() const { return {memory.data(), memory.size() / bytes(), bits}; }
    std::size_t bytes() const { return idcwh::code_bytes(bits); }
};

Data make(const char* kind, std::size_t n, unsigned bits, std::uint32_t seed) {
    Data data{kind, bits, check::random_codes(n, bits, seed)};
    const std::size_t bytes = data.bytes();
    const std::string name = kind;
    std::mt19937 random(seed);
    const Bytes centers = check::random_codes(40, bits, seed + 1);
    for (std::size_t row = 0; row < n; ++row) {
        std::uint8_t* const code = data.memory.data() + row * bytes;
        if (name == "clustered") {
            std::memcpy(code, centers.data() + random() % 40 * bytes, bytes);
            for (unsigned bit = random() % 12; bit < bits; bit += 1 + random() % 40)
                code[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
        } else if (name == "equal" || (name == "most" && random() % 10)) {
            std::memcpy(code, centers.data(), bytes);
        } else if (name == "prefix") {  // the first half is constant
            std::memset(code, 7, bytes / 2);
        } else if (name == "bytes") {  // every second byte is constant
            for (std::size_t i = 0; i < bytes; i += 2) code[i] = 7;
        } else if (name == "bucket" && random() % 10 < 6) {  // one huge bucket
            std::memcpy(code, centers.data(), bytes - 2);
        }
    }
    if (name == "sorted") {
        std::vector<std::size_t> order(n);
        std::iota(order.begin(), order.end(), std::size_t{0});
        const Bytes from = data.memory;
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return std::memcmp(from.data() + a * bytes, from.data() + b * bytes, bytes) < 0;
        });
        for (std::size_t row = 0; row < n; ++row)
            std::memcpy(data.memory.data() + row * bytes, from.data() + order[row] * bytes, bytes);
    }
    return data;
}

// Returns members, a member with two bits flipped, and a code far from all others.
Bytes some_queries(const Data& data) {
    const std::size_t bytes = data.bytes(), n = data.codes().size;
    Bytes queries(4 * bytes);
    std::memcpy(queries.data(), data.memory.data(), bytes);
    std::memcpy(queries.data() + bytes, data.memory.data() + n / 2 * bytes, bytes);
    std::memcpy(queries.data() + 2 * bytes, data.memory.data() + n / 3 * bytes, bytes);
    queries[2 * bytes] ^= 1;
    queries[2 * bytes + (data.bits - 1) / 8] ^= static_cast<std::uint8_t>(1 << (data.bits - 1) % 8);
    const Bytes stranger = check::random_codes(1, data.bits, 77);
    std::memcpy(queries.data() + 3 * bytes, stranger.data(), bytes);
    return queries;
}

// Collects all rows within a radius, and checks that no row comes twice.
struct Collect {
    std::int32_t radius;
    std::vector<std::int32_t>& distance_of;  // by row; -1: not seen
    std::int32_t limit() const { return radius; }
    void take(std::size_t row, std::int32_t distance) {
        CHECK((row < distance_of.size() && distance_of[row] == -1));
        distance_of[row] = distance;
    }
};

void search_collects_each_row_once(const Data& data, const idcwh::MultiIndex& index) {
    const idcwh::Codes codes = data.codes();
    const Bytes queries = some_queries(data);
    for (std::size_t q = 0; q < 4; ++q) {
        const std::uint8_t* const query = queries.data() + q * data.bytes();
        const auto expected = check::all_distances(codes, {query, query + data.bytes()});
        for (const unsigned radius : {0u, 1u, 2u, 3u, 5u, 8u, 11u, data.bits / 3, data.bits}) {
            // Large radii of long codes enumerate millions of buckets. The ring of 65 bits has only 40,000 of them.
            const bool many = data.bits > 24 && data.bits != 65;
            if (radius > 5 && radius > data.bits / 8 && many && (q != 3 || radius > 24)) continue;
            for (const double budget : {unlimited, 20000.0, 0.0}) {
                std::vector<std::int32_t> seen(codes.size, -1);
                Collect sink{static_cast<std::int32_t>(radius), seen};
                const bool complete = index.search(codes, query, sink, budget);
                if (budget == unlimited) CHECK(complete);
                bool right = true;
                for (std::size_t row = 0; row < codes.size; ++row) {
                    const bool within = expected[row] <= static_cast<std::int32_t>(radius);
                    right &= seen[row] == -1 ? !complete || !within : within && seen[row] == expected[row];
                }
                CHECK(right);
            }
        }
    }
}

void topk_equals(const Data& data, const idcwh::MultiIndex& index, const idcwh::SearchOptions& options) {
    const idcwh::Codes codes = data.codes();
    const Bytes queries = some_queries(data);
    const idcwh::MultiIndexSearch searcher(index);
    const check::Searching search{searcher, codes, options};
    const std::size_t n = codes.size, rows = idcwh::eligible(codes, options);
    for (const std::size_t k : {std::size_t{1}, std::size_t{10}, std::size_t{300}, n - 1, n, n + 1}) {
        const std::size_t kept = std::min(k, rows);
        std::vector<std::int32_t> distances(4 * kept), expected_distances(4 * kept);
        std::vector<std::int64_t> ids(4 * kept), expected_ids(4 * kept);
        idcwh::topk(codes, queries.data(), 4, k, expected_distances.data(), expected_ids.data(), options);
        CHECK(search.topk(queries.data(), 4, k, distances.data(), ids.data()) == kept);
        CHECK(distances == expected_distances);
        CHECK(ids == expected_ids);
    }
}

void radius_equals(const Data& data, const idcwh::MultiIndex& index, const idcwh::SearchOptions& options) {
    const idcwh::Codes codes = data.codes();
    const Bytes queries = some_queries(data);
    const idcwh::MultiIndexSearch searcher(index);
    const check::Searching search{searcher, codes, options};
    for (const unsigned radius : {0u, 1u, 4u, data.bits / 4, data.bits, data.bits + 1}) {
        const auto expected = idcwh::radius(codes, queries.data(), 4, radius, options);
        const auto hits = search.radius(queries.data(), 4, radius);
        CHECK(hits.limits == expected.limits);
        CHECK(hits.distances == expected.distances);
        CHECK(hits.ids == expected.ids);
        std::vector<std::int64_t> counts(4);
        search.count(queries.data(), 4, radius, counts.data());
        for (std::size_t q = 0; q < 4; ++q) CHECK(counts[q] == expected.limits[q + 1] - expected.limits[q]);
    }
}

// Checks the k nearest in the order in which they are found, without a scan.
void nearest_without_a_scan(const Data& data, const idcwh::MultiIndex& index) {
    const idcwh::Codes codes = data.codes();
    const Bytes queries = some_queries(data);
    for (std::size_t q = 0; q < 4; ++q)
        for (const std::size_t k : {std::size_t{1}, std::size_t{10}, std::size_t{1000}}) {
            if (q == 3 && data.bits > 48) continue;  // no code is near
            const std::uint8_t* const query = queries.data() + q * data.bytes();
            std::vector<std::int32_t> distances(k), expected_distances(k);
            std::vector<std::int64_t> ids(k), expected_ids(k);
            idcwh::topk(codes, query, 1, k, expected_distances.data(), expected_ids.data());
            if (data.bits > 64 && expected_distances.back() > 12) continue;
            struct Sink {
                idcwh::KBest nearest;
                std::int32_t limit() const { return nearest.limit(); }
                std::int32_t limit_from(std::size_t row) const {
                    return nearest.limit_from(static_cast<std::int64_t>(row));
                }
                void take(std::size_t row, std::int32_t distance) {
                    nearest.add(static_cast<std::int64_t>(row), distance);
                }
            } sink{idcwh::KBest(k, data.bits)};
            CHECK(index.search(codes, query, sink, unlimited));
            CHECK(sink.nearest.finish(distances.data(), ids.data()) == k);
            CHECK(distances == expected_distances);
            CHECK(ids == expected_ids);
        }
}

void all_of(const char* kind, unsigned bits, std::size_t n) {
    const Data data = make(kind, n, bits, bits);
    const idcwh::Codes codes = data.codes();
    std::unique_ptr<idcwh::MultiIndex> index;
    for (const unsigned threads : {1u, 2u, 7u}) {
        index = idcwh::MultiIndex::build(codes, no_limit, threads, nullptr);
        CHECK((index && index->size() == n));
        if (!index) return;
        if (threads == 1) search_collects_each_row_once(data, *index);
        nearest_without_a_scan(data, *index);
    }
    CHECK(idcwh::MultiIndex::build(codes, index->memory(), 2, nullptr));
    // Only wide codes are indexed by some of their bits.
    const auto less = idcwh::MultiIndex::build(codes, index->memory() - 1, 2, nullptr);
    CHECK((bits > 100 ? less && less->memory() < index->memory() : !less));
    if (less) topk_equals(data, *less, {}), radius_equals(data, *less, {}), nearest_without_a_scan(data, *less);

    std::vector<std::int64_t> ids(n);
    std::iota(ids.begin(), ids.end(), std::int64_t{1} << 40);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(bits));
    Bytes third(n), rare(n);
    std::vector<std::uint64_t> half(n / 64 + 1);
    std::vector<std::int64_t> list;
    for (std::size_t row = 0; row < n; ++row) {
        third[row] = row % 3 == 1, rare[row] = row % 997 == 5;
        if (row % 2) half[row / 64] |= std::uint64_t{1} << row % 64;
        if (row % 5 == 2) list.push_back(static_cast<std::int64_t>(row));
    }
    using idcwh::Rows;
    const Rows filters[] = {Rows::all(),
                            Rows::of_bytes(third.data()),
                            Rows::of_bytes(rare.data()),
                            Rows::of_bitmap(half.data()),
                            Rows::of_list(list.data(), list.size()),
                            Rows::range(n / 4, n + 5)};
    unsigned turn = 0;
    for (const bool shuffled : {false, true})
        for (const Rows& rows : filters) {
            // Every pair for 64 bits; every third for other widths.
            if (++turn % 3 != 1 && bits != 64) continue;
            idcwh::SearchOptions options;
            options.threads = std::vector{1u, 2u, 7u}[(turn / 2) % 3];
            options.ids = shuffled ? ids.data() : nullptr;
            options.rows = rows;
            topk_equals(data, *index, options);
            radius_equals(data, *index, options);
        }
}

// The work of a search, counted step by step, stays within its budget. The work of a sequence stays within 1.1 times
// its scans, including the scans of searches that gave up.
void work_is_bounded(const char* kind, unsigned bits, std::size_t n) {
    namespace multi = idcwh::multi;
    const Data data = make(kind, n, bits, bits);
    const idcwh::Codes codes = data.codes();
    const auto tables = multi::build_tables(codes, multi::cut(bits, n, no_limit), 2, nullptr);
    const double scan = idcwh::cost::scan_ns(codes, 1);
    const Bytes queries = some_queries(data);
    idcwh::cost::Allowance allowance;
    double work = 0, scans = 0;
    for (std::size_t turn = 0; turn < 60; ++turn) {
        const std::uint8_t* const query = queries.data() + turn % 4 * data.bytes();
        struct Sink {
            idcwh::KBest nearest;
            std::int32_t radius;
            std::size_t taken = 0;
            std::int32_t limit() const { return radius < 0 ? nearest.limit() : radius; }
            void take(std::size_t row, std::int32_t distance) {
                ++taken;
                if (radius < 0) nearest.add(static_cast<std::int64_t>(row), distance);
            }
        } sink{idcwh::KBest(10, bits), std::vector{-1, 0, 1, 4, static_cast<int>(bits / 8)}[turn % 5]};
        multi::SinkReceiver<Sink> receiver(sink);
        const double most = allowance.most(scan);
        double spent = 0;
        const bool complete = multi::search(tables, codes, query, receiver, {scan, most}, spent);
        CHECK(spent <= most);
        CHECK(static_cast<double>(sink.taken) * multi::found_ns <= spent);
        constexpr double share = idcwh::cost::Allowance::share;
        CHECK(most <= (1 + share) * scan);
        allowance.settle(scan, spent, complete);
        work += spent + (complete ? 0 : scan);
        scans += scan;
        CHECK(work <= ((1 + share) * scans + 2 * scan) * (1 + 1e-9));
    }
}

TEST("a multi-index that cannot pay is not built") {
    const Bytes few = check::random_codes(1000, 64, 1);
    CHECK(!idcwh::MultiIndex::build({few.data(), 1000, 64}, no_limit, 1, nullptr));
    const Bytes codes = check::random_codes(70000, 64, 1);
    CHECK(!idcwh::MultiIndex::build({codes.data(), 70000, 64}, 0, 1, nullptr));
    CHECK(!idcwh::MultiIndex::build({codes.data(), 560000, 4}, no_limit, 1, nullptr));

    const Bytes many = check::random_codes(2000000, 64, 1);
    const idcwh::Interrupt always{[](void*) { return true; }, nullptr};
    bool interrupted = false;
    try {
        idcwh::MultiIndex::build({many.data(), 2000000, 64}, no_limit, 2, &always);
    } catch (const idcwh::Error& error) {
        interrupted = error.code() == idcwh::ErrorCode::interrupted;
    }
    CHECK(interrupted);
}

// Tables of 2^30 codes are too large for a test.
TEST("the substrings of any number of codes are at most max_substring_bits wide") {
    namespace multi = idcwh::multi;
    for (const unsigned bits : {8u, 26u, 64u, 65u, 81u, 128u, 135u, 192u, 256u, 65535u})
        for (const std::uint64_t n : {std::uint64_t{1} << 16, std::uint64_t{1} << 30, (std::uint64_t{1} << 32) - 1}) {
            unsigned end = 0;
            for (const auto& [offset, width] : multi::cut(bits, static_cast<std::size_t>(n))) {
                CHECK((offset == end && width > 0 && width <= multi::max_substring_bits));
                end += width;
            }
            CHECK((end == bits || (bits <= 64 && end < bits)));
        }
}

TEST("a multi-index of 64 bits equals the scan for each kind of codes") {
    for (const char* kind : {"uniform", "clustered", "equal", "most", "sorted"}) all_of(kind, 64, 70001);
}

TEST("a multi-index of each width equals the scan") {
    for (const unsigned bits : {8u, 15u, 16u, 17u, 24u, 31u, 32u, 33u, 48u, 63u, 65u, 96u, 100u, 128u, 256u})
        all_of("clustered", bits, 66000);
    all_of("uniform", 24, 80000);
    all_of("uniform", 40, 80000);
}

TEST("a multi-index of codes with constant parts equals the scan") {
    for (const char* kind : {"prefix", "bytes", "bucket"})
        for (const unsigned bits : {64u, 128u}) all_of(kind, bits, 66000);
}

TEST("the work of a multi-index stays within its budget") {
    for (const char* kind : {"prefix", "bytes", "bucket"})
        for (const unsigned bits : {64u, 128u, 512u}) work_is_bounded(kind, bits, 140000);
    for (const char* kind : {"uniform", "clustered", "equal", "most"}) work_is_bounded(kind, 128, 140000);
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
