// Multi-index hashing compared with the scan of the same codes, on one thread.
//
//     bench_multi_index [millions = 10] [bits = 64] [uniform|clustered|equal|most|sorted ...]
//
// Prints the processor time per query by the scan and by the multi-index, in turns, for each kind of data and
// operation. The columns are the medians, their ratio and the least times. Memory and build time come first. Queries
// are members of the codes (m) or random (u).
#include <idcwh/search.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "../tests/searching.hpp"
#include "structures/multi_index/queries.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;

// Returns the processor time of this thread, which other work on the machine affects less.
double now_ms() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

struct Random {  // splitmix64, fast enough for billions
    std::uint64_t state;
    std::uint64_t operator()() {
        std::uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
};

void fill(Random& random, std::uint8_t* code, unsigned bits) {
    const std::size_t bytes = idcwh::code_bytes(bits);
    for (std::size_t at = 0; at < bytes; at += 8) {
        const std::uint64_t word = random();
        std::memcpy(code + at, &word, std::min<std::size_t>(8, bytes - at));
    }
    if (bits % 8) code[bytes - 1] &= static_cast<std::uint8_t>((1 << bits % 8) - 1);
}

Bytes make(const std::string& kind, std::size_t n, unsigned bits) {
    const std::size_t bytes = idcwh::code_bytes(bits);
    Bytes codes(n * bytes);
    Random random{42};
    Bytes centers(1000 * bytes);
    for (std::size_t i = 0; i < 1000; ++i) fill(random, centers.data() + i * bytes, bits);
    const auto flip_below = static_cast<std::uint64_t>(0.05 * 65536);
    for (std::size_t row = 0; row < n; ++row) {
        std::uint8_t* const code = codes.data() + row * bytes;
        if (kind == "uniform" || kind == "sorted" || (kind == "most" && random() % 10 == 0)) {
            fill(random, code, bits);
        } else if (kind == "clustered") {
            std::memcpy(code, centers.data() + random() % 1000 * bytes, bytes);
            std::uint64_t dice = 0;
            for (unsigned bit = 0; bit < bits; ++bit, dice >>= 16) {
                if (bit % 4 == 0) dice = random();
                if ((dice & 65535) < flip_below) code[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
            }
        } else {
            std::memcpy(code, centers.data(), bytes);
        }
    }
    if (kind == "sorted" && bytes == 8) {
        auto* words = reinterpret_cast<std::uint64_t*>(codes.data());
        std::sort(words, words + n);
    }
    return codes;
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

template <class Scan, class Index>
void compare(const char* kind, const char* operation, std::size_t queries, const Scan& scan, const Index& index) {
    std::vector<double> by_scan, by_index;
    for (std::size_t q = 0; q < queries; ++q) {
        if (q < 15) {
            const double begin = now_ms();
            scan(q);
            by_scan.push_back(now_ms() - begin);
        }
        const double begin = now_ms();
        index(q);
        by_index.push_back(now_ms() - begin);
    }
    const double a = median(by_scan), b = median(by_index);
    const double least_a = *std::min_element(by_scan.begin(), by_scan.end());
    const double least_b = *std::min_element(by_index.begin(), by_index.end());
    std::printf("%-11s %-12s %10.4f %10.4f %9.2f %10.4f %10.4f\n", kind, operation, a, b, a / b, least_a, least_b);
    std::fflush(stdout);
}

void bench(const std::string& kind, std::size_t n, unsigned bits) {
    const std::size_t bytes = idcwh::code_bytes(bits), nq = 200;
    const Bytes memory = make(kind, n, bits);
    const idcwh::Codes codes{memory.data(), n, bits};
    Random random{7};
    Bytes members(nq * bytes), strangers(nq * bytes);
    for (std::size_t q = 0; q < nq; ++q) {
        std::memcpy(members.data() + q * bytes, memory.data() + random() % n * bytes, bytes);
        fill(random, strangers.data() + q * bytes, bits);
    }
    const double begin = now_ms();
    const auto index = idcwh::MultiIndex::build(codes, static_cast<std::size_t>(-1), 1, nullptr);
    if (!index) {
        std::printf("%s: no multi-index over these\n", kind.c_str());
        return;
    }
    std::printf("%s: built in %.1f s; %s\n", kind.c_str(), (now_ms() - begin) / 1000, index->describe().c_str());
    idcwh::SearchOptions options;
    options.threads = 1;
    const idcwh::MultiIndexSearch searcher(*index);
    const check::Searching search{searcher, codes, options};
    for (const bool member : {false, true}) {
        const Bytes& queries = member ? members : strangers;
        const std::string name = kind + (member ? " m" : " u");
        for (const std::size_t k : {std::size_t{1}, std::size_t{10}, std::size_t{100}, std::size_t{1000}, n / 100}) {
            std::vector<std::int32_t> distances(k);
            std::vector<std::int64_t> ids(k);
            const std::string operation = "top " + std::to_string(k);
            compare(
                name.c_str(), operation.c_str(), k > 1000 ? 5 : nq,
                [&](std::size_t q) {
                    idcwh::topk(codes, queries.data() + q * bytes, 1, k, distances.data(), ids.data(), options);
                },
                [&](std::size_t q) { search.topk(queries.data() + q * bytes, 1, k, distances.data(), ids.data()); });
        }
        if (kind == "equal" || kind == "most") continue;  // every radius holds nearly all codes or none
        for (const unsigned radius : {3u, bits / 8}) {
            const std::string operation = "radius " + std::to_string(radius);
            compare(
                name.c_str(), operation.c_str(), nq,
                [&](std::size_t q) { idcwh::radius(codes, queries.data() + q * bytes, 1, radius, options); },
                [&](std::size_t q) { search.radius(queries.data() + q * bytes, 1, radius); });
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    const double millions = argc > 1 ? std::atof(argv[1]) : 10;
    const unsigned bits = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 64;
    std::vector<std::string> kinds(argv + std::min(argc, 3), argv + argc);
    if (kinds.empty()) kinds = {"uniform", "clustered", "equal", "most", "sorted"};
    std::printf("%-11s %-12s %10s %10s %9s %10s %10s\n", "data", "operation", "scan ms", "index ms", "ratio",
                "least scan", "least index");
    for (const auto& kind : kinds) bench(kind, static_cast<std::size_t>(millions * 1e6), bits);
    return 0;
}
