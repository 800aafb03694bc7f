// A service that stores its codes in a file. Many threads answer requests while a writer adds, removes and compacts.
//
//     example_database [FILE [SECONDS]]  checks every answer and prints counts
//
// Reader and writer have separate handles, as in two processes. The reader reads the writer's changes by refresh().
// A request searches one snapshot and never waits.
#include <idcwh/database.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr unsigned bits = 64;
using Code = std::uint64_t;

const std::uint8_t* bytes_of(const Code& code) { return reinterpret_cast<const std::uint8_t*>(&code); }

// The first item. It is never removed, so that readers know the first hit of every answer.
constexpr Code anchor = 0x0123456789abcdef;
constexpr std::size_t k = 5;

void create(const std::string& path) {
    std::mt19937_64 random(1);
    std::vector<Code> codes(20000);
    for (auto& code : codes) code = random();
    codes[0] = anchor;
    std::vector<std::string_view> keys(codes.size(), "one of many");
    keys[0] = "anchor";
    idcwh::NewItems items{bytes_of(codes[0]), codes.size()};
    items.keys = keys.data();
    auto database = idcwh::Database::create(path, bits, R"({"model": "none, these are random"})", true,
                                            idcwh::Database::Durability::on_close);
    database.add(items);
    database.close();  // only now is the complete file at its path
}

std::atomic<bool> stop{false};
std::atomic<std::size_t> answered{0}, wrong{0}, changed{0}, refreshed{0};

void write(const std::string& path) {
    auto database = idcwh::Database::open(path, idcwh::Database::Access::write);
    std::mt19937_64 random(2);
    std::deque<std::int64_t> added;
    while (!stop) {
        const Code code = random();
        added.push_back(-1);
        idcwh::NewItems item{bytes_of(code), 1};
        if (added.size() <= 100) {
            database.add(item, &added.back());
        } else {  // replaces an old item by a new one in a single change, so that a crash leaves both or neither
            database.update(&added.front(), 1, item, &added.back());
            added.pop_front();
        }
        if (++changed % 100 == 0) database.compact();
    }
}

void answer(const idcwh::Database& database, unsigned seed) {
    std::mt19937_64 random(seed);
    idcwh::QueryOptions options;
    options.threads = 1;  // the requests themselves run in parallel
    std::int32_t distances[k];
    std::int64_t ids[k];
    while (!stop) {
        const Code query = anchor ^ Code{1} << random() % bits;
        const auto view = database.snapshot();
        const std::size_t kept = view.topk(bytes_of(query), 1, k, distances, ids, options);
        wrong += kept != k || distances[0] != 1 || view.key(ids[0]) != "anchor";
        ++answered;
    }
}

void refresh(idcwh::Database& database) {
    while (!stop) {
        refreshed += database.refresh();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

int run(const std::string& path, double seconds) {
    create(path);
    auto database = idcwh::Database::open(path);
    std::vector<std::thread> threads;
    for (unsigned reader = 0; reader < 4; ++reader) threads.emplace_back([&, reader] { answer(database, reader); });
    threads.emplace_back([&] { write(path); });
    threads.emplace_back([&] { refresh(database); });
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    for (auto& thread : threads) thread.join();

    const auto again = idcwh::Database::open(path);
    const auto found = again.check();
    std::printf("%zu answers (%zu wrong), %zu changes, %zu refreshes in %g s; %zu items, %zu corrupt ranges\n",
                answered.load(), wrong.load(), changed.load(), refreshed.load(), seconds, found.items,
                found.corrupt.size());
    return answered && changed && refreshed && !wrong && found.corrupt.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc > 1 ? argv[1] : "codes.bin", argc > 2 ? std::atof(argv[2]) : 2);
    } catch (const idcwh::Error& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
