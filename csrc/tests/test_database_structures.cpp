// The structures that optimize() builds over the segments of a file. Searches equal brute force through adds, removals,
// compactions and refreshes. The memory limit holds, and a truncated file is an error.
#include <idcwh/database.hpp>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "check.hpp"
#include "database_model.hpp"
#include "index/planner.hpp"
#include "model.hpp"
#include "oracle.hpp"
#include "structures/structures.hpp"

namespace {

using check::State;
using idcwh::Database;
using idcwh::ErrorCode;
using Access = idcwh::Database::Access;

std::size_t covered(const idcwh::Snapshot& snapshot) {
    std::size_t sum = 0;
    for (const auto& structure : snapshot.structures()) sum += structure.codes;
    return sum;
}

void compare(const Database& database, const State& state, std::mt19937& random) {
    CHECK(check::state_of(database) == state);
    const auto snapshot = database.snapshot();
    check::Model model{state.bits, {}, {}};
    snapshot.each([&](std::int64_t id, std::string_view, std::string_view, std::uint32_t) {
        model.ids.push_back(id);
        model.codes.push_back(state.items.at(id).code);
    });
    check::compare_everywhere(snapshot, model, random);
}

void add(Database& database, State& state, std::size_t n, std::mt19937& random) {
    auto batch = check::random_batch(state, n, random);
    batch.with([&](const idcwh::NewItems& items) { database.add(items); });
    batch.put_into(state);
}

// Adds codes without other columns, so that compact() makes one segment of all.
void add_codes(Database& database, State& state, std::size_t n, std::mt19937& random) {
    auto batch = check::random_batch(state, n, random);
    for (auto& item : batch.items) item = {.code = item.code};
    batch.with([&](const idcwh::NewItems& items) { database.add(items); });
    batch.put_into(state);
}

// Few bits, so that groups or a table pay for every segment. Searches use the structures whatever they cost.
void test_history(unsigned bits, int steps, std::uint32_t seed) {
    std::mt19937 random(seed);
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    Database writer = Database::create(path, bits), reader = Database::open(path);
    State state{bits}, after;
    writer.optimize();  // with no codes
    CHECK(writer.snapshot().structures().empty());
    add(writer, state, 2000, random);
    CHECK(reader.refresh());
    writer.optimize();
    reader.optimize();
    CHECK(covered(writer.snapshot()) == 2000);
    CHECK(covered(reader.snapshot()) == 2000);
    std::size_t most = 0;
    for (int step = 0; step < steps; ++step) {
        check::random_step(writer, state, after, 400, random);
        state = after;
        if (step % 4 != 3) continue;
        reader.refresh();
        if (step % 8 == 7) {
            writer.optimize();
            reader.optimize();
            CHECK(covered(writer.snapshot()) == covered(reader.snapshot()));
        }
        compare(writer, state, random);
        compare(reader, state, random);
        most = std::max(most, writer.snapshot().structures().size());
    }
    std::printf("%u bits: %zu structures at most\n", bits, most);
    CHECK(most > 1);
    writer.drop_structures();
    CHECK(writer.snapshot().structures().empty());
    compare(writer, state, random);
}

// Checks which codes are covered, and when.
TEST("structures cover the codes that pay for them") {
    std::mt19937 random(11);
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    Database writer = Database::create(path, 8), reader = Database::open(path);
    State state{8};
    add_codes(writer, state, 10000, random);
    const auto before = writer.snapshot();
    writer.optimize();
    CHECK(before.structures().empty());
    CHECK(covered(writer.snapshot()) == 10000);
    CHECK(writer.snapshot().explain_topk(10).chosen.name != "scan");
    CHECK(writer.snapshot().memory() > before.memory());
    add_codes(writer, state, 1000, random);
    CHECK(covered(writer.snapshot()) == 10000);  // the new codes are too few for a structure
    CHECK(reader.refresh());
    reader.optimize();
    CHECK(covered(reader.snapshot()) == 11000);
    CHECK(reader.snapshot().structures().size() == 2);
    const std::int64_t gone = state.items.begin()->first;
    writer.remove(&gone, 1);
    state.items.erase(gone);
    CHECK(reader.refresh());
    CHECK(covered(reader.snapshot()) == 11000);  // rows, one of them dead
    add_codes(writer, state, 20000, random);
    CHECK(covered(writer.snapshot()) == 31000);
    CHECK(reader.refresh());
    CHECK(covered(reader.snapshot()) == 31000);
    writer.compact();
    CHECK(covered(writer.snapshot()) == 30999);
    CHECK(writer.snapshot().structures().size() == 1);
    CHECK(reader.refresh());
    CHECK(covered(reader.snapshot()) == 30999);
    CHECK(Database::open(path).snapshot().structures().empty());  // structures are not stored in the file
    compare(reader, state, random);

    reader.drop_structures();
    add_codes(writer, state, 40000, random);
    CHECK(reader.refresh());
    CHECK(reader.snapshot().structures().empty());
    idcwh::OptimizeOptions options;
    options.memory = 0;
    writer.optimize(options);
    CHECK(writer.snapshot().structures().empty());
    writer.optimize();
    const auto all = writer.snapshot().structures();
    const auto bytes = [](const auto& list) {
        return std::accumulate(list.begin(), list.end(), std::size_t{0},
                               [](std::size_t sum, const auto& structure) { return sum + structure.bytes; });
    };
    CHECK(all.size() == 2);
    options.memory = bytes(all) * 3 / 4;  // enough for the larger structure
    writer.optimize(options);
    const auto some = writer.snapshot().structures();
    CHECK(some.size() == 1);
    CHECK(some[0].codes == 40000);
    CHECK(bytes(some) <= options.memory);
    writer.compact();
    CHECK(bytes(writer.snapshot().structures()) <= options.memory);
    compare(writer, state, random);
    writer.close();
    CHECK(check::error_of([&] { writer.optimize(); }) == static_cast<int>(ErrorCode::invalid_argument));
}

// All codes are different, in two segments. The larger segment gets a multi-index.
TEST("the larger of two segments gets a multi-index") {
    idcwh::detail::always_structures = true;
    std::mt19937 random(13);
    const check::Folder folder;
    Database database = Database::create(folder / "codes.bin", 64);
    const auto codes = check::random_codes(90000, 64, 14);
    std::vector<std::int64_t> ids(70000);
    std::iota(ids.rbegin(), ids.rend(), 5);  // descending, so the order of results is not that of the rows
    database.add({codes.data(), 70000, ids.data()});
    database.add({codes.data() + 70000 * 8, 20000});
    database.optimize();
    CHECK(covered(database.snapshot()) == 70000);
    CHECK(database.snapshot().structures()[0].name == "multi-index");
    database.remove(ids.data(), 3000);
    const auto snapshot = database.snapshot();
    CHECK(covered(snapshot) == 70000);
    auto queries = check::random_codes(3, 64, 15);
    queries.insert(queries.end(), codes.begin() + 5000 * 8, codes.begin() + 5002 * 8);
    ids.resize(90000);
    std::iota(ids.begin() + 70000, ids.end(), 70005);
    idcwh::SearchOptions left;
    left.ids = ids.data();
    left.rows = idcwh::Rows::range(3000, 90000);
    const auto rankings = check::brute_force({codes.data(), 90000, 64}, queries, left);
    for (std::size_t q = 0; q < 5; ++q) {
        const check::Ranking& expected = rankings[q];
        std::vector<std::int32_t> distances(100);
        std::vector<std::int64_t> found(100);
        CHECK(snapshot.topk(queries.data() + q * 8, 1, 100, distances.data(), found.data()) == 100);
        for (std::size_t i = 0; i < 100; ++i) {
            CHECK(distances[i] == expected[i].first);
            CHECK(found[i] == expected[i].second);
        }
        const auto hits = snapshot.radius(queries.data() + q * 8, 1, 16);
        CHECK(hits.ids.size() == check::rows_within(expected, 16));
        for (std::size_t i = 0; i < hits.ids.size(); ++i) CHECK(hits.ids[i] == expected[i].second);
    }
    idcwh::detail::always_structures = false;
}

// The interrupt is checked every few milliseconds, so the build needs many codes.
TEST("optimize is interrupted") {
    const check::Folder folder;
    Database database = Database::create(folder / "codes.bin", 64);
    const auto first = check::random_codes(70000, 64, 21), more = check::random_codes(1000000, 64, 22);
    database.add({first.data(), 70000});
    database.optimize();
    CHECK(covered(database.snapshot()) == 70000);
    Database reader = Database::open(folder / "codes.bin");
    database.drop_structures();
    database.add({more.data(), 1000000});
    const idcwh::Interrupt at_once{[](void*) { return true; }, nullptr};
    idcwh::OptimizeOptions options;
    options.interrupt = &at_once;
    for (int i = 0; i < 2; ++i) {
        CHECK(check::error_of([&] { database.optimize(options); }) == static_cast<int>(ErrorCode::interrupted));
        CHECK(database.snapshot().structures().empty());
        CHECK(database.size() == 1070000);
    }
    reader.optimize();
    CHECK(reader.refresh());
    CHECK(covered(reader.snapshot()) == 1070000);  // the refresh builds without an interrupt
    CHECK(check::error_of([&] { reader.optimize(options); }) == static_cast<int>(ErrorCode::interrupted));
    CHECK(covered(reader.snapshot()) == 1070000);  // unchanged
}

// Searches continue while structures and the file change.
TEST("searches continue while structures change") {
    std::mt19937 random(17);
    const check::Folder folder;
    Database database = Database::create(folder / "codes.bin", 8);
    State state{8};
    add(database, state, 3000, random);
    const auto query = check::random_codes(1, 8, 18);
    std::atomic<bool> stop{false};
    const auto search = [&] {
        while (!stop) {
            const auto snapshot = database.snapshot();
            std::vector<std::int32_t> distances(snapshot.size());
            std::vector<std::int64_t> ids(snapshot.size());
            CHECK(snapshot.topk(query.data(), 1, ids.size(), distances.data(), ids.data()) == snapshot.size());
            CHECK(std::is_sorted(distances.begin(), distances.end()));
            std::sort(ids.begin(), ids.end());
            CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
        }
    };
    std::thread first(search), second(search);
    for (int i = 0; i < 30; ++i) {
        database.optimize();
        add(database, state, 100, random);
        if (i % 5 == 2) database.drop_structures();
        if (i % 7 == 3) database.compact();
    }
    stop = true;
    first.join(), second.join();
    CHECK(check::state_of(database) == state);
}

// All readers of a snapshot may be the first that looks up a key.
TEST("keys are found while items change") {
    const check::Folder folder;
    Database database = Database::create(folder / "codes.bin", 8);
    State state{8};
    std::mt19937 random(23);
    auto batch = check::random_batch(state, 70'000, random);
    for (std::size_t i = 0; i < batch.items.size(); ++i) {
        batch.items[i] = {.code = batch.items[i].code, .key = "kept " + std::to_string(i % 35'000)};
    }
    batch.with([&](const idcwh::NewItems& items) { database.add(items); });
    batch.put_into(state);
    std::map<std::string, std::vector<std::int64_t>> expected;
    for (const auto& [id, item] : state.items) expected[item.key].push_back(id);
    std::atomic<bool> stop{false};
    std::atomic<int> rounds{0};
    const auto look = [&](std::uint32_t seed) {
        std::mt19937 own(seed);
        for (; !stop; ++rounds) {
            const auto snapshot = database.snapshot();
            for (int i = 0; i < 20; ++i) {
                const std::string name = "kept " + std::to_string(own() % 35'000);
                const std::string_view key = name;
                CHECK(snapshot.find(&key, 1) == expected.at(name));
            }
            const std::string_view last = "last";
            CHECK(snapshot.find(&last, 1).size() <= 1);
        }
    };
    std::thread first(look, 1), second(look, 2);
    const std::string_view last = "last";
    const std::uint8_t code = 0;
    for (int i = 0; i < 20; ++i) {
        const auto old = database.snapshot().find(&last, 1);
        database.update(old.data(), old.size(), {.codes = &code, .size = 1, .keys = &last});
        if (i % 7 == 3) database.compact();
    }
    while (rounds < 10) std::this_thread::yield();
    stop = true;
    first.join(), second.join();
}

TEST("optimize of a file that was cut off raises corrupt") {
    std::mt19937 random(19);
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    State state{16};
    {
        Database database = Database::create(path, 16);
        add(database, state, 90000, random);
    }
    Database database = Database::open(path);
    database.optimize();
    const auto size = std::filesystem::file_size(path);
    Database cold = Database::open(path);
    std::filesystem::resize_file(path, size / 8);
    constexpr int corrupt = static_cast<int>(ErrorCode::corrupt);
    CHECK(check::error_of([&] { cold.optimize(); }) == corrupt);
    CHECK(check::error_of([&] { database.optimize(); }) == corrupt);
    CHECK(check::error_of([&] { database.refresh(); }) == corrupt);
    const auto query = check::random_codes(1, 16, 20);
    std::int32_t distance;
    std::int64_t id;
    CHECK(check::error_of([&] { database.snapshot().topk(query.data(), 1, 1, &distance, &id); }) == corrupt);
}

TEST("a database with structures equals the oracle through random steps") {
    idcwh::detail::always_structures = true;
    test_history(4, 40, 1);
    test_history(7, 40, 2);
    idcwh::detail::always_structures = false;
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
