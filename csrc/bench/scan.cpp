// The time of searches with excluded rows, of searches with many hits, and of a full ranking compared with a counting
// sort. One thread, in turns.
//
//     bench_scan [millions of 64-bit codes, default 10]
#include <idcwh/search.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Run {
    const char* name;
    std::function<void()> body;
};

// Times the runs in turns. Prints milliseconds and their ratio to the first run.
void compare(const char* title, const std::vector<Run>& runs, int rounds) {
    std::vector<std::vector<double>> times(runs.size());
    for (int round = 0; round < rounds; ++round)
        for (std::size_t i = 0; i < runs.size(); ++i) {
            const double begin = seconds();
            runs[i].body();
            times[i].push_back(1e3 * (seconds() - begin));
        }
    std::printf("%s\n", title);
    for (auto& list : times) std::sort(list.begin(), list.end());
    for (std::size_t i = 0; i < runs.size(); ++i)
        std::printf("  %-34s %9.3f ms (least %9.3f), %7.3f of the first\n", runs[i].name, times[i][rounds / 2],
                    times[i][0], times[i][rounds / 2] / times[0][rounds / 2]);
}

// Ranks by a textbook counting sort: measure, count and place.
void counting_sort(const std::vector<std::uint64_t>& codes, std::uint64_t query, std::uint8_t* measured,
                   std::int32_t* distances, std::int64_t* ids) {
    std::size_t counts[66] = {};
    for (std::size_t i = 0; i < codes.size(); ++i) {
        measured[i] = static_cast<std::uint8_t>(__builtin_popcountll(codes[i] ^ query));
        ++counts[measured[i] + 1];
    }
    for (std::size_t d = 1; d < 66; ++d) counts[d] += counts[d - 1];
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const std::size_t at = counts[measured[i]]++;
        distances[at] = measured[i];
        ids[at] = static_cast<std::int64_t>(i);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const std::size_t n = (argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 10) * 1'000'000;
    std::vector<std::uint64_t> words(n);
    std::mt19937_64 random(1);
    for (auto& word : words) word = random();
    const idcwh::Codes codes{reinterpret_cast<const std::uint8_t*>(words.data()), n, 64};
    const std::uint64_t query = random();
    const auto* q = reinterpret_cast<const std::uint8_t*>(&query);
    std::vector<std::int32_t> distances(n);
    std::vector<std::int64_t> ids(n), names(n);
    std::iota(names.begin(), names.end(), std::int64_t{7});
    std::shuffle(names.begin(), names.end(), random);
    const auto topk = [&](const idcwh::Codes& among, const idcwh::Rows& rows, const std::int64_t* of = nullptr) {
        idcwh::SearchOptions options;
        options.threads = 1;
        options.rows = rows;
        options.ids = of;
        idcwh::topk(among, q, 1, 10, distances.data(), ids.data(), options);
    };

    std::vector<std::uint8_t> bytes(n), most_bytes(n, 1);
    std::vector<std::uint64_t> bitmap((n + 63) / 64), most((n + 63) / 64, ~std::uint64_t{0});
    std::vector<std::int64_t> list;
    for (std::size_t row = 0; row < n; ++row) {
        if (random() % 100 == 0) {
            bytes[row] = 1;
            bitmap[row / 64] |= std::uint64_t{1} << row % 64;
            list.push_back(static_cast<std::int64_t>(row));
        }
        if (random() % 1000 == 0) most[row / 64] &= ~(std::uint64_t{1} << row % 64), most_bytes[row] = 0;
    }
    using idcwh::Rows;
    compare("top 10, one query",
            {{"all", [&] { topk(codes, Rows::all()); }},
             {"99.9 % as a bitmap", [&] { topk(codes, Rows::of_bitmap(most.data())); }},
             {"99.9 % as bytes", [&] { topk(codes, Rows::of_bytes(most_bytes.data())); }},
             {"1 % as a range", [&] { topk(codes, Rows::range(n / 2, n / 2 + n / 100)); }},
             {"1 % as a list", [&] { topk(codes, Rows::of_list(list.data(), list.size())); }},
             {"1 % as a bitmap", [&] { topk(codes, Rows::of_bitmap(bitmap.data())); }},
             {"1 % as bytes", [&] { topk(codes, Rows::of_bytes(bytes.data())); }}},
            11);

    const std::vector<std::uint64_t> same(n, query);
    const idcwh::Codes equal{reinterpret_cast<const std::uint8_t*>(same.data()), n, 64};
    std::vector<std::int64_t> falling(names.size());
    for (std::size_t i = 0; i < n; ++i) falling[i] = static_cast<std::int64_t>(n - i);
    compare("top 10, all codes equal",
            {{"row numbers", [&] { topk(equal, Rows::all()); }},
             {"shuffled ids", [&] { topk(equal, Rows::all(), names.data()); }},
             {"descending ids", [&] { topk(equal, Rows::all(), falling.data()); }}},
            5);

    idcwh::SearchOptions one;
    one.threads = 1;
    std::vector<std::int64_t> counts(65);
    for (const unsigned radius : {20u, 28u, 32u, 64u}) {
        idcwh::count(codes, q, 1, radius, counts.data(), one);
        const std::string title = "radius " + std::to_string(radius) + ": " + std::to_string(counts[0]) + " hits";
        compare(title.c_str(),
                {{"top 10", [&] { topk(codes, Rows::all()); }},
                 {"radius", [&] { idcwh::radius(codes, q, 1, radius, one); }},
                 {"count", [&] { idcwh::count(codes, q, 1, radius, counts.data(), one); }},
                 {"histogram", [&] { idcwh::histogram(codes, q, 1, counts.data(), one); }}},
                3);
    }

    const auto measured = std::make_unique<std::uint8_t[]>(n);
    compare(
        "full ranking",
        {{"plain counting sort", [&] { counting_sort(words, query, measured.get(), distances.data(), ids.data()); }},
         {"rank", [&] { idcwh::rank(codes, q, 1, distances.data(), ids.data(), one); }}},
        5);
    return 0;
}
