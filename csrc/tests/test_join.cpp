// Joins and clusters against a comparison of all codes, bit by bit.
#include <idcwh/isa.hpp>
#include <idcwh/join.hpp>
#include <idcwh/threads.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>

#include "check.hpp"
#include "oracle.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;
using Triple = std::tuple<std::int64_t, std::int64_t, std::int32_t>;

idcwh::Codes view(const Bytes& memory, unsigned bits) {
    return {memory.data(), memory.size() / idcwh::code_bytes(bits), bits};
}

// Uniform codes; few distinct ones; clusters; triples of near codes; few of them near others; one constant half;
// sorted; one bit that varies.
Bytes make(const std::string& kind, std::size_t n, unsigned bits, std::uint32_t seed) {
    const std::size_t bytes = idcwh::code_bytes(bits);
    Bytes codes = check::random_codes(n, bits, seed);
    std::mt19937 random(seed);
    const Bytes centers = check::random_codes(20, bits, seed + 1);
    for (std::size_t row = 0; row < n; ++row) {
        std::uint8_t* const code = codes.data() + row * bytes;
        if (kind == "equal" || (kind == "most" && random() % 4)) std::copy_n(centers.data(), bytes, code);
        if (kind == "few") std::copy_n(centers.data() + random() % 20 * bytes, bytes, code);
        if (kind == "clustered") {
            std::copy_n(centers.data() + random() % 20 * bytes, bytes, code);
            for (unsigned flips = random() % 5; flips; --flips) {
                const unsigned bit = random() % bits;
                code[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
            }
        }
        if (kind == "triples") {
            std::copy_n(codes.data() + row / 3 * 3 * bytes, bytes, code);
            for (unsigned flips = row % 3 ? random() % 6 : 0; flips; --flips) {
                const unsigned bit = random() % bits;
                code[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
            }
        }
        if (kind == "twins" && row >= n - n / 400) {
            std::copy_n(codes.data() + (row - (n - n / 400)) * bytes, bytes, code);
            for (unsigned flips = random() % 24; flips; --flips) {
                const unsigned bit = random() % bits;
                code[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
            }
        }
        if (kind == "half") std::fill_n(code, bytes / 2, std::uint8_t{5});
        if (kind == "one bit") {
            std::fill_n(code, bytes, std::uint8_t{0});
            code[0] = static_cast<std::uint8_t>(random() % 2);
        }
    }
    return codes;
}

// The codes in 64-bit words, with zeros at the end of each.
std::vector<std::uint64_t> in_words(const idcwh::Codes& codes) {
    const std::size_t bytes = idcwh::code_bytes(codes.bits), words = (bytes + 7) / 8;
    std::vector<std::uint64_t> result(codes.size * words);
    for (std::size_t i = 0; i < codes.size; ++i) std::memcpy(&result[i * words], codes.data + i * bytes, bytes);
    return result;
}

std::vector<Triple> brute_force(const idcwh::Codes& a, const idcwh::Codes* b, unsigned radius) {
    const std::size_t words = (idcwh::code_bytes(a.bits) + 7) / 8;
    const auto first = in_words(a), second = in_words(b ? *b : a);
    std::vector<Triple> pairs;
    for (std::size_t i = 0; i < first.size() / words; ++i) {
        const std::uint64_t* const x = first.data() + i * words;
        const std::uint64_t* y = second.data() + (b ? 0 : i + 1) * words;
        for (std::size_t j = b ? 0 : i + 1; j < second.size() / words; ++j, y += words) {
            unsigned d = 0;
            for (std::size_t w = 0; w < words && d <= radius; ++w)
                d += static_cast<unsigned>(std::popcount(x[w] ^ y[w]));
            if (d <= radius) pairs.emplace_back(i, j, d);
        }
    }
    return pairs;
}

std::vector<Triple> all_of(idcwh::PairStream stream, std::size_t block) {
    std::vector<Triple> pairs;
    idcwh::Pairs part;
    while (stream.next(part)) {
        CHECK((part.first.size() <= block && part.second.size() == part.first.size()));
        CHECK(part.distances.size() == part.first.size());
        for (std::size_t i = 0; i < part.first.size(); ++i)
            pairs.emplace_back(part.first[i], part.second[i], part.distances[i]);
    }
    CHECK(part.first.empty());
    CHECK(!stream.next(part));
    return pairs;
}

void compare(const std::string& kind, std::size_t n, unsigned bits, unsigned radius) {
    const Bytes memory = make(kind, n, bits, bits + radius), others = make(kind, n / 3, bits, bits + radius);
    const idcwh::Codes a = view(memory, bits), b = view(others, bits);
    for (const idcwh::Codes* with : {static_cast<const idcwh::Codes*>(nullptr), &b}) {
        const auto expected = brute_force(a, with, radius);
        std::vector<Triple> first;
        unsigned threads = 1;
        for (const auto& set : idcwh::isa_list()) {
            if (!set.supported) continue;
            idcwh::isa_force(set.name);
            idcwh::JoinOptions options;
            options.threads = threads = threads % 3 + 1;
            options.block = threads == 1 ? 1000 : 7;
            auto pairs = all_of(with ? idcwh::join(a, *with, radius, options) : idcwh::self_join(a, radius, options),
                                options.block);
            if (first.empty()) first = pairs;
            CHECK(pairs == first);  // also in their order
            std::sort(pairs.begin(), pairs.end());
            CHECK(pairs == expected);
        }
        idcwh::isa_force("auto");
        CHECK((with ? idcwh::count_pairs(a, *with, radius) : idcwh::count_pairs(a, radius)) == expected.size());
    }
}

TEST("joins of each width and radius equal brute force") {
    for (const unsigned bits : {1u, 5u, 8u, 13u, 48u, 64u, 65u, 130u, 256u, 1030u})
        for (const unsigned radius : {0u, 1u, bits / 8, bits / 2, bits})
            compare("clustered", 150, bits, std::min(radius, bits));
}

TEST("joins of each kind of codes equal brute force") {
    for (const char* kind : {"uniform", "equal", "most", "few", "half", "one bit"})
        for (const unsigned bits : {12u, 64u, 100u}) compare(kind, 200, bits, 3);
}

// Enough codes that the plan has parts.
TEST("joins in parts equal brute force") {
    std::size_t in_parts = 0;
    for (const auto& [kind, bits, radius] : {std::tuple{"uniform", 64u, 10u},
                                             {"triples", 64u, 4u},
                                             {"half", 64u, 4u},
                                             {"triples", 256u, 12u},
                                             {"twins", 256u, 12u},  // most first bytes differ by more than the radius
                                             {"uniform", 40u, 2u},
                                             {"triples", 100u, 6u}}) {
        const Bytes memory = make(kind, 12000, bits, 1);
        const idcwh::Codes codes = view(memory, bits);
        const auto expected = brute_force(codes, nullptr, radius);
        std::vector<Triple> first;
        for (const unsigned threads : {1u, 2u}) {
            idcwh::JoinOptions options;
            options.threads = threads;
            auto stream = idcwh::self_join(codes, radius, options);
            const std::string plan = stream.explain();
            CHECK(plan.find("12000 codes") == 0);
            in_parts += plan.find(" parts of ") != std::string::npos;
            auto pairs = all_of(std::move(stream), options.block);
            if (first.empty()) first = pairs;
            CHECK(pairs == first);
            std::sort(pairs.begin(), pairs.end());
            CHECK(pairs == expected);
        }
    }
    CHECK(in_parts == 14);
}

// Enough codes in one bucket that tasks are cut; either side is the larger one. Pairs are counted without their codes
// if no code repeats.
TEST("dense joins and their counts equal brute force") {
    for (const char* kind : {"uniform", "most"}) {
        const Bytes memory = make(kind, 3000, 64, 1), others = make(kind, 1700, 64, 2);
        const idcwh::Codes more = view(memory, 64), fewer = view(others, 64);
        const unsigned radius = 24;
        for (const auto& [a, b] :
             {std::pair{&more, static_cast<const idcwh::Codes*>(nullptr)}, {&more, &fewer}, {&fewer, &more}}) {
            const auto expected = brute_force(*a, b, radius);
            auto pairs = all_of(b ? idcwh::join(*a, *b, radius) : idcwh::self_join(*a, radius), std::size_t{1} << 20);
            CHECK((b ? idcwh::count_pairs(*a, *b, radius) : idcwh::count_pairs(*a, radius)) == expected.size());
            std::sort(pairs.begin(), pairs.end());
            CHECK(pairs == expected);
        }
    }
}

std::vector<std::int64_t> numbered(const std::vector<std::size_t>& keepers) {
    std::vector<std::int64_t> numbers(keepers.size());
    std::int64_t count = 0;
    for (std::size_t i = 0; i < keepers.size(); ++i) numbers[i] = keepers[i] == i ? count++ : numbers[keepers[i]];
    return numbers;
}

TEST("clusters equal those of a plain loop") {
    for (const auto& [kind, bits, radius] :
         {std::tuple{"clustered", 64u, 3u}, {"few", 32u, 0u}, {"uniform", 16u, 1u}, {"most", 24u, 2u}}) {
        const Bytes memory = make(kind, 700, bits, 5);
        const idcwh::Codes codes = view(memory, bits);
        std::vector<std::vector<std::size_t>> near(codes.size);
        for (const auto& [i, j, distance] : brute_force(codes, nullptr, radius)) {
            near[static_cast<std::size_t>(i)].push_back(static_cast<std::size_t>(j));
            near[static_cast<std::size_t>(j)].push_back(static_cast<std::size_t>(i));
        }
        std::vector<std::size_t> components(codes.size, codes.size), greedy = components;
        for (std::size_t i = 0; i < codes.size; ++i) {
            std::vector<std::size_t> open;
            if (components[i] == codes.size) components[i] = i, open.push_back(i);
            while (!open.empty()) {
                const std::size_t at = open.back();
                open.pop_back();
                for (const std::size_t j : near[at])
                    if (components[j] == codes.size) components[j] = i, open.push_back(j);
            }
            if (greedy[i] != codes.size) continue;
            greedy[i] = i;
            for (const std::size_t j : near[i])
                if (greedy[j] == codes.size) greedy[j] = i;
        }
        std::vector<std::int64_t> clusters(codes.size);
        idcwh::cluster(codes, radius, idcwh::ClusterMode::components, clusters.data());
        CHECK(clusters == numbered(components));
        const auto count = idcwh::cluster(codes, radius, idcwh::ClusterMode::greedy, clusters.data());
        CHECK(clusters == numbered(greedy));
        CHECK(static_cast<std::int64_t>(count) == *std::max_element(clusters.begin(), clusters.end()) + 1);
    }
}

template <class Call>
std::string message_of(idcwh::ErrorCode code, Call call) {
    try {
        call();
    } catch (const idcwh::Error& error) {
        CHECK(error.code() == code);
        return error.what();
    }
    return "";
}

TEST("joins with invalid arguments raise an error") {
    const Bytes memory(8 * 1000000);  // all equal
    const idcwh::Codes codes = view(memory, 64), wider = view(memory, 128);
    const auto invalid = idcwh::ErrorCode::invalid_argument;
    CHECK(message_of(invalid, [&] { idcwh::self_join(codes, 65); }) != "");
    CHECK(message_of(invalid, [&] { idcwh::join(codes, wider, 1); }) != "");
    CHECK(message_of(invalid, [&] { idcwh::count_pairs({nullptr, 3, 64}, 1); }) != "");
    CHECK(idcwh::count_pairs({nullptr, 0, 64}, 1) == 0);
    Bytes padded(50 * 2);
    padded[41] = 0x10;
    const idcwh::Codes zeros = view(memory, 12), wrong = view(padded, 12);
    std::vector<std::int64_t> clusters(50);
    const std::string reason = ": is invalid (found nonzero padding bits in row 20,";
    CHECK(message_of(invalid, [&] { idcwh::self_join(wrong, 1); }).find("codes" + reason) == 0);
    CHECK(message_of(invalid, [&] { idcwh::join(zeros, wrong, 1); }).find("b" + reason) == 0);
    CHECK(message_of(invalid, [&] { idcwh::join(wrong, zeros, 1); }).find("a" + reason) == 0);
    CHECK(message_of(invalid, [&] { idcwh::count_pairs(wrong, 1); }).find("codes" + reason) == 0);
    CHECK(message_of(invalid, [&] { idcwh::count_pairs(zeros, wrong, 1); }).find("b" + reason) == 0);
    CHECK(message_of(invalid, [&] {
              idcwh::cluster(wrong, 1, idcwh::ClusterMode::greedy, clusters.data());
          }).find("codes" + reason) == 0);
    CHECK(idcwh::count_pairs(codes, 3) == std::uint64_t{1000000} * 999999 / 2);
    idcwh::JoinOptions options;
    options.max_pairs = 1000;
    idcwh::Pairs block;
    const auto text = message_of(invalid, [&] { idcwh::self_join(codes, 0, options).next(block); });
    CHECK(text.find("499999500000") != std::string::npos);
    const idcwh::Interrupt always{[](void*) { return true; }, nullptr};
    options.interrupt = &always;
    const Bytes many = check::random_codes(300000, 64, 1);
    CHECK(message_of(idcwh::ErrorCode::interrupted, [&] { idcwh::count_pairs(view(many, 64), 20, options); }) != "");
}

// Rows of an index with ids in no order, some of them removed, against the same rows of memory.
TEST("joins of snapshots return the ids of the selected items") {
    constexpr unsigned bits = 48;
    const Bytes memory = make("triples", 600, bits, 3);
    std::vector<std::int64_t> ids(600);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 7919 % 600) + 5'000'000'000;
    idcwh::Index index(bits);
    index.add(memory.data(), 400, ids.data());
    index.add(memory.data() + 400 * 6, 200, ids.data() + 400);
    index.remove(ids.data() + 90, 60);
    const auto snapshot = index.snapshot();
    std::vector<std::size_t> alive;  // rows, by position
    for (std::size_t row = 0; row < 600; ++row)
        if (row < 90 || row >= 150) alive.push_back(row);
    Bytes mask(alive.size());
    std::vector<std::int64_t> listed = {3};
    std::vector<std::uint64_t> words((alive.size() + 63) / 64);
    for (std::size_t at = 0; at < alive.size(); ++at) {
        mask[at] = at % 5 != 0;
        words[at / 64] |= std::uint64_t{mask[at]} << at % 64;
        if (mask[at]) listed.push_back(ids[alive[at]]);
    }
    const std::int64_t end = 5'000'000'300;
    for (const idcwh::Where& where :
         {idcwh::Where::all(), idcwh::Where::of_ids(listed.data(), listed.size()),
          idcwh::Where::of_bytes(mask.data(), mask.size()), idcwh::Where::of_bitmap(words.data(), mask.size()),
          idcwh::Where::id_range(0, end)}) {
        std::vector<std::size_t> rows;
        Bytes selected;
        for (std::size_t at = 0; at < alive.size(); ++at) {
            const std::size_t row = alive[at];
            if (where.kind == idcwh::Where::Kind::id_range ? ids[row] >= end
                                                           : where.kind != idcwh::Where::Kind::all && !mask[at])
                continue;
            rows.push_back(row);
            selected.insert(selected.end(), memory.begin() + static_cast<std::ptrdiff_t>(row * 6),
                            memory.begin() + static_cast<std::ptrdiff_t>(row * 6 + 6));
        }
        std::vector<std::int64_t> copied(snapshot.eligible(where));
        Bytes codes(copied.size() * 6);
        snapshot.copy(codes.data(), copied.data(), where);
        CHECK(codes == selected);

        std::vector<Triple> self, between;
        for (const auto& [i, j, d] : brute_force(view(selected, bits), nullptr, 6)) {
            const auto a = ids[rows[static_cast<std::size_t>(i)]], b = ids[rows[static_cast<std::size_t>(j)]];
            self.emplace_back(std::min(a, b), std::max(a, b), d);
        }
        const idcwh::Codes others = view(memory, bits);
        for (const auto& [i, j, d] : brute_force(view(selected, bits), &others, 6))
            if (j < 90 || j >= 150)
                between.emplace_back(ids[rows[static_cast<std::size_t>(i)]], ids[static_cast<std::size_t>(j)], d);
        auto pairs = all_of(idcwh::self_join(snapshot, 6, {}, where), ~std::size_t{0});
        std::sort(pairs.begin(), pairs.end());
        std::sort(self.begin(), self.end());
        CHECK(pairs == self);
        CHECK(pairs.size() > 100);
        CHECK(idcwh::count_pairs(snapshot, 6, {}, where) == self.size());
        pairs = all_of(idcwh::join(snapshot, snapshot, 6, {}, where), ~std::size_t{0});
        std::sort(pairs.begin(), pairs.end());
        std::sort(between.begin(), between.end());
        CHECK(pairs == between);
        CHECK(idcwh::count_pairs(snapshot, snapshot, 6, {}, where) == between.size());
        std::vector<std::int64_t> numbers(rows.size()), expected(rows.size()), found(rows.size());
        idcwh::cluster(view(selected, bits), 6, idcwh::ClusterMode::greedy, expected.data());
        idcwh::cluster(snapshot, 6, idcwh::ClusterMode::greedy, found.data(), numbers.data(), {}, where);
        CHECK(numbers == expected);
        CHECK(found == copied);
    }
}

// Returns the pairs of a stream, read into arrays of this capacity.
std::vector<Triple> in_arrays(idcwh::PairStream stream, std::size_t capacity) {
    std::vector<std::int64_t> first(capacity), second(capacity);
    std::vector<std::int32_t> distances(capacity);
    std::vector<Triple> pairs;
    std::size_t count;
    do {
        count = stream.next(first.data(), second.data(), distances.data(), capacity);
        for (std::size_t i = 0; i < count; ++i) pairs.emplace_back(first[i], second[i], distances[i]);
    } while (count == capacity);
    return pairs;
}

// A consumer may stop anywhere. Arrays of every capacity give the same pairs in the same order.
TEST("pairs in arrays equal those in blocks") {
    const Bytes memory = make("clustered", 500, 64, 9);
    const auto expected = all_of(idcwh::self_join(view(memory, 64), 6), ~std::size_t{0});
    for (const std::size_t capacity : {std::size_t{1}, std::size_t{17}, expected.size(), expected.size() + 1})
        CHECK(in_arrays(idcwh::self_join(view(memory, 64), 6), capacity) == expected);
}

// Many rows per code: threads write parts of one block, which begin and end within the rows of two codes.
TEST("pairs of repeated codes equal brute force for all capacities and threads") {
    for (const char* kind : {"equal", "few", "most", "clustered"}) {
        const Bytes memory = make(kind, 900, 32, 4), others = make(kind, 301, 32, 4);
        const idcwh::Codes a = view(memory, 32), b = view(others, 32);
        std::vector<std::int64_t> ids(a.size);
        for (std::size_t i = 0; i < ids.size(); ++i)
            ids[i] = static_cast<std::int64_t>(i * 7919 % ids.size() + (1ull << 40));
        idcwh::Index index(32);
        index.add(memory.data(), a.size, ids.data());
        for (const int inputs : {0, 1, 2}) {  // one array, two arrays, a snapshot
            auto expected = brute_force(a, inputs == 1 ? &b : nullptr, 9);
            if (inputs == 2)
                for (auto& [i, j, d] : expected) {
                    const auto first = ids[static_cast<std::size_t>(i)], second = ids[static_cast<std::size_t>(j)];
                    i = std::min(first, second), j = std::max(first, second);
                }
            std::sort(expected.begin(), expected.end());
            std::vector<Triple> ordered;
            for (const unsigned threads : {1u, 3u})
                for (const std::size_t capacity : {std::size_t{1} << 20, std::size_t{65537}, std::size_t{1009}}) {
                    idcwh::JoinOptions options;
                    options.threads = threads;
                    auto stream = inputs == 0   ? idcwh::self_join(a, 9, options)
                                  : inputs == 1 ? idcwh::join(a, b, 9, options)
                                                : idcwh::self_join(index.snapshot(), 9, options);
                    auto pairs = in_arrays(std::move(stream), capacity);
                    if (ordered.empty()) ordered = pairs;
                    CHECK(pairs == ordered);
                    std::sort(pairs.begin(), pairs.end());
                    CHECK(pairs == expected);
                }
        }
    }
}

TEST("more than 2^32 pairs are counted and can be read in part") {
    const Bytes memory(100'000 * 8);
    const idcwh::Codes codes = view(memory, 64);
    CHECK(idcwh::count_pairs(codes, 64) == std::uint64_t{100'000} * 99'999 / 2);
    CHECK(idcwh::count_pairs(codes, codes, 0) == std::uint64_t{100'000} * 100'000);
    idcwh::JoinOptions options;
    options.block = 3'000'000;
    for (const bool self : {true, false}) {
        auto stream = self ? idcwh::self_join(codes, 1, options) : idcwh::join(codes, codes, 1, options);
        idcwh::Pairs block;
        CHECK(stream.next(block));
        CHECK(block.first.size() == options.block);
        CHECK(block.first.back() == (self ? 30 : 29));  // 100,000 pairs per row, or one fewer per row
    }
}

bool is_set(void* flag) { return *static_cast<bool*>(flag); }

// Wide codes in one task. The stream is used by another thread than the one that created it.
TEST("a join is interrupted within a task, on the thread that reads") {
    const Bytes memory = make("uniform", 3000, 65535, 1);
    bool now = false;
    const idcwh::Interrupt interrupt{is_set, &now};
    idcwh::JoinOptions options;
    options.threads = 1;
    options.interrupt = &interrupt;
    auto stream = idcwh::self_join(view(memory, 65535), 30000, options);
    now = true;
    std::thread([&] {
        idcwh::Pairs block;
        // The error remains, because the pairs that the ended task would have found are missing.
        for (int i = 0; i < 2; ++i) {
            CHECK(message_of(idcwh::ErrorCode::interrupted, [&] { stream.next(block); }) != "");
            CHECK(block.first.empty());
            now = false;
        }
    }).join();
}

TEST("a join repeats its error instead of ending") {
    const Bytes memory = make("clustered", 500, 64, 9);
    idcwh::JoinOptions options;
    options.max_pairs = 10;
    options.block = 4;
    auto stream = idcwh::self_join(view(memory, 64), 6, options);
    idcwh::Pairs block;
    std::string text;
    for (int i = 0; i < 10 && text.empty(); ++i)
        text = message_of(idcwh::ErrorCode::invalid_argument, [&] { stream.next(block); });
    CHECK(text != "");
    CHECK(message_of(idcwh::ErrorCode::invalid_argument, [&] { stream.next(block); }) == text);

    const Bytes many = make("uniform", 20000, 64, 2);
    options = {};
    options.threads = 2;
    auto failing = idcwh::self_join(view(many, 64), 20, options);
    idcwh::set_executor([](std::size_t, unsigned, const auto&) { throw std::runtime_error("no threads"); });
    for (int i = 0; i < 2; ++i) {
        text = "";
        try {
            failing.next(block);
        } catch (const std::runtime_error& error) {
            text = error.what();
        }
        CHECK(text == "no threads");
        idcwh::set_executor({});
    }
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
