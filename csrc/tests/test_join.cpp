// Joins and clusters against a comparison of all codes, bit by bit.
#include <idcwh/isa.hpp>
#include <idcwh/join.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <tuple>

#include "check.hpp"
#include "oracle.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;
using Triple = std::tuple<std::int64_t, std::int64_t, std::int32_t>;

idcwh::Codes view(const Bytes& memory, unsigned bits) {
    return {memory.data(), memory.size() / idcwh::code_bytes(bits), bits};
}

// Uniform codes; few distinct ones; clusters; triples of near codes; one constant half; sorted; one bit that varies.
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
        if (kind == "half") std::fill_n(code, bytes / 2, std::uint8_t{5});
        if (kind == "one bit") {
            std::fill_n(code, bytes, std::uint8_t{0});
            code[0] = static_cast<std::uint8_t>(random() % 2);
        }
    }
    if (kind == "padding" && bits % 8)
        for (std::size_t row = 0; row < n; row += 3) codes[(row + 1) * bytes - 1] |= 0x80;
    return codes;
}

std::int32_t distance(const std::uint8_t* a, const std::uint8_t* b, std::size_t bytes) {
    int sum = 0;
    for (std::size_t i = 0; i < bytes; i += 8) {
        std::uint64_t first = 0, second = 0;
        std::memcpy(&first, a + i, std::min<std::size_t>(8, bytes - i));
        std::memcpy(&second, b + i, std::min<std::size_t>(8, bytes - i));
        sum += std::popcount(first ^ second);
    }
    return sum;
}

std::vector<Triple> brute_force(const idcwh::Codes& a, const idcwh::Codes* b, unsigned radius) {
    const idcwh::Codes& second = b ? *b : a;
    const std::size_t bytes = idcwh::code_bytes(a.bits);
    std::vector<Triple> pairs;
    for (std::size_t i = 0; i < a.size; ++i)
        for (std::size_t j = b ? 0 : i + 1; j < second.size; ++j) {
            const std::int32_t d = distance(a.data + i * bytes, second.data + j * bytes, bytes);
            if (d <= static_cast<std::int32_t>(radius)) pairs.emplace_back(i, j, d);
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
    for (const char* kind : {"uniform", "equal", "most", "few", "half", "one bit", "padding"})
        for (const unsigned bits : {12u, 64u, 100u}) compare(kind, 200, bits, 3);
}

// Enough codes that the plan has parts.
TEST("joins in parts equal brute force") {
    std::size_t in_parts = 0;
    for (const auto& [kind, bits, radius] : {std::tuple{"uniform", 64u, 10u},
                                             {"triples", 64u, 4u},
                                             {"half", 64u, 4u},
                                             {"triples", 256u, 12u},
                                             {"uniform", 40u, 2u},
                                             {"triples", 100u, 6u}}) {
        const Bytes memory = make(kind, 15000, bits, 1);
        const idcwh::Codes codes = view(memory, bits);
        const auto expected = brute_force(codes, nullptr, radius);
        std::vector<Triple> first;
        for (const unsigned threads : {1u, 2u}) {
            idcwh::JoinOptions options;
            options.threads = threads;
            auto stream = idcwh::self_join(codes, radius, options);
            const std::string plan = stream.explain();
            CHECK(plan.find("15000 codes") == 0);
            in_parts += plan.find(" parts of ") != std::string::npos;
            auto pairs = all_of(std::move(stream), options.block);
            if (first.empty()) first = pairs;
            CHECK(pairs == first);
            std::sort(pairs.begin(), pairs.end());
            CHECK(pairs == expected);
        }
    }
    CHECK(in_parts == 12);
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

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
