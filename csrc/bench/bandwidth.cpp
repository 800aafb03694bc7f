// The share of a plain read loop's bandwidth that a top-k search reaches over the same memory. One query per code
// length, on one thread, in turns.
//
//     bench_bandwidth [megabytes of codes, default 80]
#include <idcwh/search.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Reads every byte once. Several sums, so that no addition waits for another.
std::uint64_t read_all(const std::uint8_t* data, std::size_t size) {
    std::uint64_t sums[8] = {};
    for (std::size_t at = 0; at + 64 <= size; at += 64)
        for (std::size_t i = 0; i < 8; ++i) {
            std::uint64_t word;
            std::memcpy(&word, data + at + 8 * i, 8);
            sums[i] += word;
        }
    std::uint64_t sum = 0;
    for (const std::uint64_t value : sums) sum += value;
    return sum;
}

double median(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
    const std::size_t size = (argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 80) * 1'000'000;
    std::vector<std::uint8_t> memory(size);
    std::mt19937_64 random(1);
    for (std::size_t at = 0; at + 8 <= size; at += 8) {
        const std::uint64_t word = random();
        std::memcpy(memory.data() + at, &word, 8);
    }
    std::printf("%5s %12s %12s %12s %7s\n", "bits", "codes", "read GB/s", "top 10 GB/s", "share");
    std::uint64_t seen = 0;
    for (const unsigned bits :
         {8u, 16u, 24u, 32u, 48u, 64u, 96u, 128u, 160u, 192u, 256u, 384u, 512u, 768u, 1024u, 2048u, 4096u}) {
        const std::size_t bytes = idcwh::code_bytes(bits), n = size / bytes;
        const std::vector<std::uint8_t> query(memory.end() - static_cast<std::ptrdiff_t>(bytes), memory.end());
        std::int32_t distances[10];
        std::int64_t ids[10];
        idcwh::SearchOptions options;
        options.threads = 1;
        std::vector<double> reads, searches;
        for (int round = 0; round < 15; ++round) {
            const double begin = seconds();
            seen += read_all(memory.data(), n * bytes);
            const double middle = seconds();
            idcwh::topk({memory.data(), n, bits}, query.data(), 1, 10, distances, ids, options);
            searches.push_back(seconds() - middle);
            reads.push_back(middle - begin);
        }
        const double gigabytes = static_cast<double>(n * bytes) / 1e9;
        std::printf(
            "%5u %12zu %6.1f (%5.1f) %6.1f (%5.1f) %6.2f (best of each: %.2f)\n", bits, n, gigabytes / median(reads),
            gigabytes / *std::min_element(reads.begin(), reads.end()), gigabytes / median(searches),
            gigabytes / *std::min_element(searches.begin(), searches.end()), median(reads) / median(searches),
            *std::min_element(reads.begin(), reads.end()) / *std::min_element(searches.begin(), searches.end()));
    }
    return seen == 42 ? 1 : 0;
}
