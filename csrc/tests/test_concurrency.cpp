// Readers beside a writer: every search must see an add or a removal completely or not at all, and be exact for it.
// IDCWH_TEST_SECONDS sets the duration (default 2). Built with the thread sanitizer, the test also finds races.
#include <idcwh/index.hpp>
#include <idcwh/threads.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "check.hpp"
#include "oracle.hpp"

namespace {

constexpr unsigned bits = 48;
constexpr std::size_t bytes = 6, batch = 32;  // ids are added and removed in batches of 32; id / 32 is the batch

std::atomic<bool> stop{false};
std::atomic<std::size_t> searches{0}, changes{0};

void read(const idcwh::Index& index, std::uint32_t seed) {
    std::mt19937 random(seed);
    while (!stop.load()) {
        const auto snapshot = index.snapshot();
        const std::size_t n = snapshot.size();
        std::vector<std::uint8_t> codes(n * bytes);
        std::vector<std::int64_t> ids(n);
        snapshot.copy(codes.data(), ids.data());
        std::map<std::int64_t, std::size_t> whole;
        for (const auto id : ids) ++whole[id / static_cast<std::int64_t>(batch)];
        for (const auto& [number, count] : whole) CHECK(count == batch);

        const auto query = check::random_codes(1, bits, static_cast<std::uint32_t>(random()));
        idcwh::SearchOptions of_snapshot;
        of_snapshot.ids = ids.data();
        const auto expected = check::brute_force({codes.data(), n, bits}, query, of_snapshot)[0];
        idcwh::QueryOptions options;
        options.threads = 1 + random() % 2;
        const std::size_t k = random() % 50;
        std::vector<std::int32_t> distances(k);
        std::vector<std::int64_t> found(k);
        const std::size_t kept = snapshot.topk(query.data(), 1, k, distances.data(), found.data(), options);
        CHECK(kept == std::min(k, n));
        for (std::size_t i = 0; i < kept; ++i) {
            CHECK(distances[i] == expected[i].first);
            CHECK(found[i] == expected[i].second);
        }
        if (n) {
            std::vector<std::uint8_t> code(bytes);
            const std::size_t row = random() % n;
            snapshot.get(&ids[row], 1, code.data());
            CHECK(std::equal(code.begin(), code.end(), codes.begin() + static_cast<std::ptrdiff_t>(row * bytes)));
        }
        ++searches;
    }
}

void write(idcwh::Index& index, std::uint32_t seed, bool shuffled) {
    std::mt19937 random(seed);
    std::vector<std::int64_t> batches;
    std::int64_t next = 0;
    const auto ids_of = [&](std::int64_t number) {
        std::vector<std::int64_t> ids(batch);
        for (std::size_t i = 0; i < batch; ++i)
            ids[i] = number * static_cast<std::int64_t>(batch) + static_cast<std::int64_t>(i);
        if (shuffled) std::shuffle(ids.begin(), ids.end(), random);
        return ids;
    };
    while (!stop.load()) {
        if (batches.size() < 20 || (batches.size() < 120 && random() % 2)) {
            const auto ids = ids_of(next);
            index.add(check::random_codes(batch, bits, static_cast<std::uint32_t>(random())).data(), batch, ids.data());
            batches.push_back(next++);
        } else {
            const std::size_t at = random() % batches.size();
            const auto ids = ids_of(batches[at]);
            CHECK(index.remove(ids.data(), batch) == batch);
            batches.erase(batches.begin() + static_cast<std::ptrdiff_t>(at));
        }
        if (random() % 50 == 0) index.optimize();
        if (random() % 90 == 0) index.drop_structures();
        ++changes;
        std::this_thread::yield();
    }
}

TEST("each search beside a writer is exact for what it sees") {
    const char* wish = std::getenv("IDCWH_TEST_SECONDS");
    const auto seconds = std::chrono::duration<double>((wish ? std::atof(wish) : 2.0) / 2);
    for (const bool shuffled : {false, true}) {
        stop.store(false);
        idcwh::Index index(bits);
        std::vector<std::thread> threads;
        for (std::uint32_t i = 0; i < 3; ++i) threads.emplace_back([&, i] { read(index, i + 1); });
        threads.emplace_back([&] { write(index, 77, shuffled); });
        std::this_thread::sleep_for(seconds);
        stop.store(true);
        for (auto& thread : threads) thread.join();
    }
    std::printf("%zu searches beside %zu changes\n", searches.load(), changes.load());
    CHECK(searches.load() > 10);
    CHECK(changes.load() > 10);
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
