// Groups of equal codes compared with the plain search of the same codes, in turns, by median and least time.
//
//   cmake -S csrc -B build/bench -DIDCWH_BENCH=ON && cmake --build build/bench --target bench_groups
//   bench_groups [rows of the large sets, 10000000] [threads, 1]
#include <idcwh/isa.hpp>
#include <idcwh/search.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../tests/searching.hpp"
#include "structures/groups/search.hpp"

namespace {

using idcwh::Work;
using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::uint8_t>;

double seconds(const std::function<void()>& run) {
    const auto begin = Clock::now();
    run();
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

Bytes uniform(std::size_t n, unsigned bits, std::uint64_t seed) {
    const std::size_t bytes = idcwh::code_bytes(bits);
    std::mt19937_64 random(seed);
    Bytes codes(n * bytes);
    for (auto& byte : codes) byte = static_cast<std::uint8_t>(random() >> 20);
    if (bits % 8)
        for (std::size_t row = 0; row < n; ++row)
            codes[(row + 1) * bytes - 1] &= static_cast<std::uint8_t>((1u << bits % 8) - 1);
    return codes;
}

// Returns codes like those of a trained model: a center per class, with bits flipped at random, in random order.
Bytes learned(std::size_t n, unsigned bits, std::size_t centers, double flipped, std::uint64_t seed) {
    const std::size_t bytes = idcwh::code_bytes(bits);
    const Bytes center = uniform(centers, bits, seed);
    std::mt19937_64 random(seed + 1);
    std::geometric_distribution<unsigned> gap(flipped);
    Bytes codes(n * bytes);
    for (std::size_t row = 0; row < n; ++row) {
        std::uint8_t* code = &codes[row * bytes];
        std::copy_n(&center[random() % centers * bytes], bytes, code);
        for (unsigned bit = gap(random); bit < bits; bit += 1 + gap(random))
            code[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    }
    return codes;
}

// Returns codes of which `share` have one value.
Bytes mostly_one(std::size_t n, unsigned bits, double share, std::uint64_t seed) {
    Bytes codes = uniform(n, bits, seed);
    const std::size_t bytes = idcwh::code_bytes(bits);
    std::mt19937_64 random(seed + 1);
    std::bernoulli_distribution one(share);
    for (std::size_t row = 1; row < n; ++row)
        if (one(random)) std::copy_n(codes.begin(), bytes, &codes[row * bytes]);
    return codes;
}

struct Timing {
    double median, least;
};

Timing timing(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return {times[times.size() / 2], times.front()};
}

void report(const char* what, std::size_t nq, const std::function<void()>& plain,
            const std::function<void()>& grouped) {
    plain(), grouped();
    std::vector<double> before, after;
    const auto begin = Clock::now();
    do {
        before.push_back(seconds(plain));
        for (int i = 0; i < 3; ++i) after.push_back(seconds(grouped));
    } while (before.size() < 5 || (before.size() < 200 && Clock::now() - begin < std::chrono::milliseconds(400)));
    const Timing a = timing(before), b = timing(after);
    const double each = 1e6 / static_cast<double>(nq);
    std::printf("  %-22s %12.2f %12.2f %12.2f %12.2f %9.1f %9.1f\n", what, a.median * each, a.least * each,
                b.median * each, b.least * each, a.median / b.median, a.least / b.least);
}

void compare(const std::string& name, const Bytes& memory, unsigned bits, unsigned threads) {
    const std::size_t bytes = idcwh::code_bytes(bits), n = memory.size() / bytes;
    const idcwh::Codes codes{memory.data(), n, bits};
    std::unique_ptr<idcwh::Groups> groups;
    const double built = seconds([&] { groups = idcwh::Groups::build(codes, nullptr, std::size_t{1} << 40, threads); });
    std::printf("%s, %zu x %u bits: built in %.3f s; ", name.c_str(), n, bits, built);
    if (!groups) return static_cast<void>(std::printf("refused\n"));
    std::printf("%s, %.1f bytes per code\n", groups->describe().c_str(),
                static_cast<double>(groups->memory()) / static_cast<double>(n));
    std::printf("  %-22s %12s %12s %12s %12s %9s %9s\n", "us per query", "plain median", "least", "groups median",
                "least", "ratio", "of least");

    idcwh::SearchOptions options;
    options.threads = threads;
    const auto searchers = idcwh::GroupSearch::all_of(*groups);
    const auto grouped = [&](idcwh::Work work, std::size_t nq, std::size_t wanted) {
        const auto expected = [&](const auto& searcher) {
            return searcher->expected_ns({work, nq, wanted, bits, n, n});
        };
        const auto& best = *std::min_element(searchers.begin(), searchers.end(),
                                             [&](const auto& a, const auto& b) { return expected(a) < expected(b); });
        return check::Searching{*best, codes, options};
    };
    const std::size_t most = 100;
    Bytes queries = uniform(most, bits, 77), members = queries;
    for (std::size_t q = 0; q < most; ++q) std::copy_n(&memory[(q * 7919 + 1) % n * bytes], bytes, &members[q * bytes]);
    std::size_t turn = 0;
    const auto next = [&] { return members.data() + turn++ % most * bytes; };
    std::vector<std::int32_t> distances(std::max<std::size_t>(n, most * 1000));
    std::vector<std::int64_t> ids(distances.size());
    for (const Bytes* set : {&members, &queries})
        for (const std::size_t k : {std::size_t{10}, std::size_t{1000}})
            for (const std::size_t nq : {std::size_t{1}, most}) {
                const std::string what = "top " + std::to_string(k) + (set == &members ? ", member" : ", other") +
                                         (nq == 1 ? "" : ", batch");
                const auto query = [&] { return nq == 1 ? set->data() + turn++ % most * bytes : set->data(); };
                report(
                    what.c_str(), nq,
                    [&] { idcwh::topk(codes, query(), nq, k, distances.data(), ids.data(), options); },
                    [&] { grouped(Work::topk, nq, k).topk(query(), nq, k, distances.data(), ids.data()); });
            }
    report(
        "radius 2", 1, [&] { idcwh::radius(codes, next(), 1, 2, options); },
        [&] { grouped(Work::radius, 1, 2).radius(next(), 1, 2); });
    std::vector<std::int64_t> counts(bits + 1);
    report(
        "count within 2", 1, [&] { idcwh::count(codes, next(), 1, 2, counts.data(), options); },
        [&] { grouped(Work::count, 1, 2).count(next(), 1, 2, counts.data()); });
    report(
        "histogram", 1, [&] { idcwh::histogram(codes, next(), 1, counts.data(), options); },
        [&] { grouped(Work::histogram, 1, 0).histogram(next(), 1, counts.data()); });
    report(
        "full ranking", 1, [&] { idcwh::rank(codes, next(), 1, distances.data(), ids.data(), options); },
        [&] { grouped(Work::rank, 1, n).rank(next(), 1, distances.data(), ids.data()); });
    if (n > 1000000) return;
    distances.resize(most * n), ids.resize(most * n);
    report(
        "full ranking, 100", most,
        [&] { idcwh::rank(codes, members.data(), most, distances.data(), ids.data(), options); },
        [&] { grouped(Work::rank, most, n).rank(members.data(), most, distances.data(), ids.data()); });
}

}  // namespace

int main(int argc, char** argv) {
    const std::size_t n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10000000;
    const unsigned threads = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
    std::printf("%s, %u thread(s)\n", idcwh::isa_active().c_str(), threads);
    compare("learned, 10 classes", learned(50000, 48, 10, 0.02, 1), 48, threads);
    compare("uniform", uniform(n, 12, 2), 12, threads);
    compare("uniform", uniform(n, 16, 3), 16, threads);
    compare("learned, 10 classes", learned(n, 48, 10, 0.02, 4), 48, threads);
    compare("learned, 1000 classes", learned(n, 64, 1000, 0.01, 5), 64, threads);
    compare("90 % one value", mostly_one(n, 64, 0.9, 6), 64, threads);
}
