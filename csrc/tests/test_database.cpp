// Databases compared with a std::map through random histories. Also covers readers, the number of segments and invalid
// arguments.
#include <idcwh/database.hpp>

#include <algorithm>
#include <limits>
#include <set>

#include <sys/wait.h>
#include <unistd.h>

#include "check.hpp"
#include "database_model.hpp"
#include "model.hpp"

namespace {

using check::State;
using idcwh::Database;
using idcwh::ErrorCode;
using Access = idcwh::Database::Access;
using Durability = idcwh::Database::Durability;

constexpr int invalid = static_cast<int>(ErrorCode::invalid_argument);
constexpr int not_found = static_cast<int>(ErrorCode::not_found);
constexpr int locked = static_cast<int>(ErrorCode::locked);

bool clean(const Database& database, std::size_t items) {
    const auto found = database.check();
    for (const auto& range : found.corrupt) std::printf("corrupt: %s\n", range.what.c_str());
    return found.corrupt.empty() && found.items == items && found.good_items == items && found.torn == 0;
}

// Calls check() and check_intact() by their names in earlier versions.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST("deprecated names call the current functions") {
    const check::Folder folder;
    const auto database = Database::create(folder / "codes.bin", 8);
    CHECK(database.verify().corrupt.empty());
    CHECK(database.verify(1).items == 0);
    database.snapshot().check();
}
#pragma GCC diagnostic pop

// Compares find() with the map, for some of its keys and others.
void compare_keys(const idcwh::DatabaseSnapshot& snapshot, const State& state, std::mt19937& random) {
    std::vector<std::string_view> keys = {"", "no item has this key", std::string_view("\0", 1)};
    for (const auto& [id, item] : state.items)
        if (random() % 3 == 0) keys.push_back(item.key);
    const std::set<std::string_view> wanted(keys.begin(), keys.end());
    std::vector<std::int64_t> expected;
    for (const auto& [id, item] : state.items)
        if (!item.key.empty() && wanted.contains(item.key)) expected.push_back(id);
    CHECK(snapshot.find(keys.data(), keys.size()) == expected);
    for (std::size_t i = 0; i < keys.size(); i += 1 + keys.size() / 3) {
        expected.clear();
        for (const auto& [id, item] : state.items)
            if (!item.key.empty() && item.key == keys[i]) expected.push_back(id);
        CHECK(snapshot.find(&keys[i], 1) == expected);
    }
}

// Compares all results of a database with the map.
void compare(const Database& database, const State& state, bool thorough, std::mt19937& random) {
    CHECK(database.size() == state.items.size());
    CHECK(database.bits() == state.bits);
    CHECK(check::state_of(database) == state);
    const auto snapshot = database.snapshot();
    compare_keys(snapshot, state, random);
    check::Model model{state.bits, {}, {}};
    snapshot.each([&](std::int64_t id, std::string_view, std::string_view, std::uint32_t) {
        model.ids.push_back(id);
        model.codes.push_back(state.items.at(id).code);
    });
    const auto query = check::random_codes(1, state.bits, static_cast<std::uint32_t>(random()));
    std::vector<std::int32_t> distances(10);
    std::vector<std::int64_t> ids(10);
    const std::size_t kept = snapshot.topk(query.data(), 1, 10, distances.data(), ids.data());
    const auto expected = model.rank(query.data(), [](std::size_t) { return true; });
    CHECK(kept == std::min<std::size_t>(10, expected.size()));
    for (std::size_t i = 0; i < kept; ++i) {
        CHECK(distances[i] == expected[i].first);
        CHECK(ids[i] == expected[i].second);
    }
    if (!thorough) return;
    check::compare_everywhere(snapshot, model, random);
    std::map<std::string, std::size_t> labels;
    for (const auto& [id, item] : state.items) {
        CHECK(snapshot.key(id) == item.key);
        CHECK(snapshot.mtime_signature(id) == item.mtime_signature);
        CHECK(snapshot.checksum(id) == item.checksum);
        CHECK((item.label ? snapshot.label(id).data() && snapshot.label(id) == *item.label
                          : snapshot.label(id).data() == nullptr));
        if (item.label) ++labels[*item.label];
    }
    const auto counts = snapshot.label_counts();
    CHECK(
        (std::map<std::string, std::size_t>(counts.begin(), counts.end()) == labels && counts.size() == labels.size()));
    if (const std::uint8_t* codes = snapshot.codes_in_place())
        for (std::size_t row = 0; row < model.ids.size(); ++row)
            CHECK(std::equal(model.codes[row].begin(), model.codes[row].end(), codes + row * model.codes[row].size()));
    CHECK(clean(database, state.items.size()));
}

void test_history(unsigned bits, std::size_t most, int steps, std::uint32_t seed) {
    std::mt19937 random(seed);
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    auto writer = std::make_unique<Database>(Database::create(path, bits));
    Database reader = Database::open(path);
    State seen{bits}, state{bits}, after;
    for (int step = 0; step < steps; ++step) {
        check::random_step(*writer, state, after, most, random);
        state = after;
        compare(*writer, state, step % 10 == 9, random);
        if (random() % 3 == 0) {
            CHECK(check::state_of(reader) == seen);  // until refresh()
            const std::uint64_t before = reader.info().commit;
            CHECK(reader.refresh() == (writer->info().commit != before));
            CHECK(!reader.refresh());
            seen = state;
            compare(reader, seen, step % 10 == 9, random);
        }
        if (random() % 10 == 0) {
            writer.reset();
            writer = std::make_unique<Database>(Database::open(path, Access::write));
            compare(*writer, state, false, random);
        }
        if (random() % 20 == 0) compare(Database::open(path), state, false, random);
    }
    writer->close();
    compare(Database::open(path), state, true, random);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST("5000 adds of one code make at most 64 segments") {
    const check::Folder folder;
    Database database = Database::create(folder / "codes.bin", 64);
    State state{64};
    std::mt19937 random(5);
    std::size_t most = 0;
    for (int i = 0; i < 5000; ++i) {
        auto batch = check::random_batch(state, 1, random);
        batch.with([&](const idcwh::NewItems& items) { database.add(items); });
        batch.put_into(state);
        most = std::max(most, database.info().segments);
    }
    std::printf("%zu segments at most\n", most);
    CHECK(most <= 64);
    compare(database, state, false, random);
    // Removes items one by one, at random.
    while (state.items.size() > 4000) {
        const auto at = std::next(state.items.begin(), static_cast<std::ptrdiff_t>(random() % state.items.size()));
        CHECK(database.remove(&at->first, 1) == 1);
        state.items.erase(at);
        most = std::max(most, database.info().segments);
    }
    CHECK(most <= 64);
    compare(database, state, false, random);
    CHECK(clean(database, state.items.size()));
}

// Large records, of at least 4096 codes, are mapped. The last ids are used too.
TEST("large records and the last ids are kept") {
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    constexpr std::int64_t last = std::numeric_limits<std::int64_t>::max();
    for (const std::vector<std::int64_t>& ids :
         std::vector<std::vector<std::int64_t>>{{last - 5, last - 3, last},
                                                {last, 3},
                                                {last - 1, last},
                                                {0, last},
                                                {last - (std::int64_t{1} << 32), last}}) {
        Database database = Database::create(path, 16, "{}", true);
        const auto codes = check::random_codes(ids.size() + 1, 16, 3);
        database.add({codes.data(), ids.size(), ids.data()});
        CHECK(database.info().next_id == std::uint64_t{1} << 63);
        CHECK(check::error_of([&] { database.add({codes.data(), 1}); }) == invalid);
        CHECK(database.size() == ids.size());
        CHECK(clean(database, ids.size()));
        CHECK(Database::open(path).snapshot().contains(last));
        database.compact();
        CHECK(database.snapshot().contains(ids[0]));
        CHECK(clean(database, ids.size()));

        auto builder = Database::create(folder / "built.bin", 16, "{}", true, Durability::on_close);
        builder.add({codes.data(), ids.size(), ids.data()});
        CHECK(check::error_of([&] { builder.add({codes.data(), 1, &last}); }) == invalid);
        CHECK(check::error_of([&] { builder.add({codes.data(), 1}); }) == invalid);
        builder.close();
        CHECK(Database::open(folder / "built.bin").snapshot().contains(last));
    }
    std::mt19937 random(6);
    Database database = Database::create(path, 512, "{}", true);
    State state{512};
    for (int step = 0; step < 6; ++step) {
        auto batch = check::random_batch(state, 20000, random);
        batch.with([&](const idcwh::NewItems& items) { database.add(items); });
        batch.put_into(state);
        const auto gone = check::random_ids(state, 3, random);
        database.remove(gone.data(), gone.size());
        for (const auto id : gone) state.items.erase(id);
        CHECK(check::state_of(database) == state);
    }
    CHECK(clean(database, state.items.size()));
    const auto info = database.info();
    CHECK(info.items == state.items.size());
    CHECK(info.unused < std::max<std::uint64_t>(16 << 20, info.bytes));
}

// One key of very many items, keys of one item, and bytes that no encoding has. The table is built by several threads.
TEST("keys of 300,000 items are found") {
    const check::Folder folder;
    Database database = Database::create(folder / "codes.bin", 8);
    State state{8};
    std::mt19937 random(9);
    check::Batch batch;
    for (std::int64_t id = 0; id < 300'000; ++id) {
        batch.ids.push_back(id);
        std::string key = id % 3 == 0 ? "the same" : id % 3 == 1 ? "" : "\xff\x01" + std::to_string(id);
        if (id % 30 == 2) key = std::string(static_cast<std::size_t>(id % 300), '\0');
        batch.items.push_back({.code = {7}, .key = std::move(key), .label = std::nullopt});
    }
    batch.with([&](const idcwh::NewItems& items) { database.add(items); });
    batch.put_into(state);
    const std::size_t before = database.snapshot().memory();
    compare_keys(database.snapshot(), state, random);
    const std::size_t taken = database.snapshot().memory() - before;
    CHECK((taken >= 300'000 * 4 && taken <= 300'000 * 8));
    const auto kept = database.snapshot();
    const auto gone = check::random_ids(state, 2, random);
    database.remove(gone.data(), gone.size());
    compare_keys(kept, state, random);
    for (const auto id : gone) state.items.erase(id);
    compare_keys(database.snapshot(), state, random);
    const std::string_view same = "the same";
    CHECK(database.remove_keys(&same, 1) > 40'000);
    CHECK(database.snapshot().find(&same, 1).empty());
    CHECK(check::error_of([&] { database.remove_keys(&same, 1); }) == not_found);
}

TEST("calls that raise leave the database as it was") {
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    Database database = Database::create(path, 12);
    std::mt19937 random(7);
    const auto codes = check::random_codes(4, 12, 8);
    const std::vector<std::int64_t> ids = {4, 2, 9, 7};
    database.add({codes.data(), 4, ids.data()});
    State state = check::state_of(database);
    const auto refused = [&](int code, auto call) {
        CHECK(check::error_of(call) == code);
        compare(database, state, false, random);
    };
    const std::vector<std::int64_t> twice = {20, 21, 20, 22}, negative = {20, -1, 21, 22}, there = {20, 2, 21, 22};
    for (const auto* wrong : {&twice, &negative, &there})
        refused(invalid, [&] { database.add({codes.data(), 4, wrong->data()}); });
    auto padded = codes;
    padded[3] |= 0x10;
    refused(invalid, [&] { database.add({padded.data(), 4}); });
    refused(invalid, [&] { database.add({nullptr, 4}); });
    refused(invalid, [&] { database.add({codes.data(), std::numeric_limits<std::size_t>::max() / 2}); });
    refused(invalid, [&] { database.remove(nullptr, 2); });
    refused(invalid, [&] { database.replace({codes.data(), 2}); });
    const std::vector<std::int64_t> missing = {4, 5};
    refused(not_found, [&] { database.remove(missing.data(), 2); });
    refused(not_found, [&] { database.replace({codes.data(), 2, missing.data()}); });
    refused(not_found, [&] { database.update(missing.data(), 2, {codes.data(), 1}); });
    const std::string_view key = "nobody";
    refused(not_found, [&] { database.remove_keys(&key, 1); });
    refused(not_found, [&] { database.snapshot().key(5); });
    refused(invalid, [&] { Database::create(folder / "other.bin", 0); });
    refused(invalid, [&] { Database::create(folder / "other.bin", 65536); });
    refused(static_cast<int>(ErrorCode::system), [&] { Database::create(path, 12); });
    refused(static_cast<int>(ErrorCode::system), [&] { Database::open(folder / "none.bin"); });
    refused(static_cast<int>(ErrorCode::system), [&] { Database::open(folder.path().string()); });

    Database reader = Database::open(path);
    refused(invalid, [&] { reader.add({codes.data(), 1}); });
    refused(invalid, [&] { reader.remove(ids.data(), 1); });
    refused(invalid, [&] { reader.compact(); });
    refused(invalid, [&] { reader.set_manifest("{}"); });
    refused(locked, [&] { Database::open(path, Access::write); });
    refused(locked, [&] { Database::create(path, 12, "{}", true); });
    database.compact();
    refused(locked, [&] { Database::open(path, Access::write); });

    const pid_t child = fork();
    if (child == 0) {
        const bool refuses = check::error_of([&] { database.add({codes.data(), 1}); }) == invalid &&
                             check::error_of([&] { database.compact(); }) == invalid &&
                             check::error_of([&] { Database::open(path, Access::write); }) == locked &&
                             check::state_of(database) == state;
        database.close();
        _exit(refuses && check::failures == 0 ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    refused(locked, [&] { Database::open(path, Access::write); });

    const auto snapshot = database.snapshot();
    database.close();
    database.close();
    for (const int code : {check::error_of([&] { database.add({codes.data(), 1}); }),
                           check::error_of([&] { database.snapshot(); }), check::error_of([&] { database.check(); }),
                           check::error_of([&] { database.size(); }), check::error_of([&] { database.refresh(); })})
        CHECK(code == invalid);
    CHECK(snapshot.size() == 4);
    CHECK(snapshot.contains(9));
    CHECK(check::error_of([&] { Database::open(path, Access::write); }) == 0);
}

// A database that is not published leaves no file. It is an error if its path exists by then.
TEST("a database with durability on_close is written when published") {
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    const auto codes = check::random_codes(3, 9, 1);
    const auto make = [&] { return Database::create(path, 9, "{}", false, Durability::on_close); };
    {
        auto discarded = make();
        discarded.add({codes.data(), 3});
        CHECK(discarded.snapshot().contains(2));
        CHECK(!std::filesystem::exists(path));
        discarded.compact();
        CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
    }
    CHECK(std::filesystem::is_empty(folder.path()));
    Database builder = make(), later = make(), last = make();
    for (std::size_t i = 0; i < 3; ++i) builder.add({codes.data() + 2 * i, 1});
    builder.publish();
    CHECK(builder.info().segments == 1);
    CHECK(builder.info().unused == 0);
    CHECK(clean(builder, 3));
    CHECK(Database::open(path).size() == 3);
    builder.publish();  // published already
    builder.add({codes.data(), 1});
    CHECK(Database::open(path).size() == 4);
    CHECK(check::error_of([&] { later.publish(); }) == static_cast<int>(ErrorCode::system));
    CHECK(check::error_of([&] { later.add({codes.data(), 1}); }) != 0);
    CHECK(check::error_of([&] { last.close(); }) == static_cast<int>(ErrorCode::system));
    CHECK(check::error_of([&] { last.size(); }) == invalid);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
    builder.close();
    // The next writer removes the files of a killed process.
    const std::string left = folder / ".codes.bin.abcdef.tmp", alike = folder / ".codes.bin.abcdefg.tmp";
    for (const auto& name : {left, alike}) std::fclose(std::fopen(name.c_str(), "w"));
    Database::open(path, Access::write);
    CHECK(!std::filesystem::exists(left));
    CHECK(std::filesystem::exists(alike));
}

TEST("a database equals a map through random steps") {
    std::uint32_t seed = 0;
    for (const unsigned bits : {1u, 12u, 48u, 64u, 130u}) test_history(bits, 60, 100, ++seed);
}

TEST("a database equals a map through large random steps") { test_history(48, 1200, 60, 6); }

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
