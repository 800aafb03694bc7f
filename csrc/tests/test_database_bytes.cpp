// Corrupt files: every byte changed (each bit with IDCWH_TEST_SECONDS > 10), every shorter length, and truncation
// during reads. The result is an error that names the file, or the correct contents. check() finds each changed byte
// that matters.
#include <idcwh/crc32c.hpp>
#include <idcwh/database.hpp>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "check.hpp"
#include "database_model.hpp"
#include "storage/format.hpp"

namespace {

using check::State;
using idcwh::Database;
using Access = idcwh::Database::Access;
namespace format = idcwh::storage;

constexpr int corrupt = static_cast<int>(idcwh::ErrorCode::corrupt);

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}
void write(const std::string& path, const std::string& contents) {
    std::ofstream(path, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
}
// Changes the file without replacing it.
void put(const std::string& path, std::size_t offset, char byte) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
}

// Writes a file with every kind of record and section, and with superseded records.
State make(const std::string& path) {
    std::mt19937 random(3);
    Database database = Database::create(path, 12, "{\"model\": 1}");
    State state{12};
    for (const std::size_t n : {std::size_t{70}, std::size_t{3}, std::size_t{5}}) {
        check::Batch batch{{}, check::random_items(n, 12, random), n < 70};
        for (std::size_t i = 0; i < n; ++i) {
            batch.ids.push_back(state.next + static_cast<std::int64_t>(n == 3 ? n - i : n == 5 ? 3 * i : i));
            batch.items[i].key = "key " + std::to_string(i);
            batch.items[i].label = "label";
            batch.items[i].mtime_signature = static_cast<std::uint32_t>(i);
            batch.items[i].checksum = {i, i};
        }
        batch.with([&](const idcwh::NewItems& items) { database.add(items); });
        batch.put_into(state);
    }
    const std::vector<std::int64_t> gone = {4, 66};
    database.remove(gone.data(), 2);
    database.set_manifest("{\"model\": 2}");
    return check::state_of(database);
}

// Returns, per byte of the file, true if the newest commit covers it, as docs/codes-bin.md specifies.
std::vector<bool> in_force(const std::string& bytes) {
    const auto number = [&](std::size_t at) {
        std::uint64_t value;
        std::memcpy(&value, bytes.data() + at, sizeof value);
        return value;
    };
    std::vector<bool> counts(bytes.size());
    std::fill_n(counts.begin(), 4096, true);
    const std::size_t mark = number(512 + 8) > number(1024 + 8) ? 512 : 1024;
    const std::uint64_t commit = number(mark + 16);
    std::vector<std::uint64_t> records = {commit};
    const std::uint64_t directory = commit + number(commit + 64 + 8);
    for (std::uint64_t i = 0; i < number(commit + 64 + 16) / 8; ++i) records.push_back(number(directory + 8 * i));
    for (const auto record : records)
        std::fill_n(counts.begin() + static_cast<std::ptrdiff_t>(record), number(record + 8), true);
    return counts;
}

TEST("each changed byte that the newest commit covers is found") {
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    const State state = make(path);
    const std::string bytes = read(path);
    const auto counts = in_force(bytes);
    CHECK(std::count(counts.begin(), counts.end(), false) > 1000);
    const Database opened_before = Database::open(path);
    CHECK(opened_before.check().corrupt.empty());
    std::size_t refused = 0, seen = 0, harmless = 0;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        const bool gap = at > 1100 && at < 4096;
        const bool all = check::test_seconds(0) > 10 && !gap;  // else two changes: plus one, and one bit in turn
        for (int change = 0; change <= 8; ++change) {
            if (!all && change != static_cast<int>(at % 8) && change != 8) continue;
            put(path, at, static_cast<char>(change < 8 ? bytes[at] ^ 1 << change : bytes[at] + 1));
            try {
                const Database database = Database::open(path);
                bool clean = false;
                try {
                    CHECK(check::state_of(database) == state);
                    clean = true;
                } catch (const idcwh::Error& error) {
                    CHECK(error.path() == path);
                }
                const auto found = database.check();
                CHECK((clean || !found.corrupt.empty()));
                CHECK((!counts[at] || !found.corrupt.empty()));
                CHECK((found.corrupt.empty() || !found.corrupt[0].what.empty()));
                ++(found.corrupt.empty() ? harmless : seen);
            } catch (const idcwh::Error& error) {
                CHECK(counts[at]);
                CHECK(static_cast<int>(error.code()) == corrupt);
                CHECK(error.path() == path);
                ++refused;
            }
            if (counts[at] && change == 8) CHECK(!opened_before.check(1).corrupt.empty());
        }
        put(path, at, bytes[at]);
    }
    CHECK(read(path) == bytes);
    CHECK(opened_before.check().corrupt.empty());
    std::printf("%zu bytes: %zu changes refused, %zu seen by check, %zu superseded\n", bytes.size(), refused, seen,
                harmless);
}

TEST("a file of each shorter length raises corrupt") {
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    const State state = make(path);
    const std::string whole = read(path), longer = whole + std::string(200, 'R');
    for (std::size_t size = 0; size <= longer.size(); ++size) {
        write(path, longer.substr(0, size));
        CHECK(check::error_of([&] {
                  const Database database = Database::open(path);
                  CHECK(size >= whole.size());
                  CHECK(check::state_of(database) == state);
                  const auto found = database.check();
                  CHECK(found.corrupt.empty());
                  CHECK(found.torn == size - whole.size());
              }) == (size < whole.size() ? corrupt : 0));
    }
    Database::open(path, Access::write).close();
    CHECK(read(path).size() == whole.size());
    CHECK(check::state_of(Database::open(path)) == state);

    // Without commit marks the original length is unknown. The file then has an earlier state or is refused.
    std::set<std::size_t> sizes;
    std::string unmarked = whole;
    unmarked.replace(512, 1024, 1024, '\0');
    for (std::size_t size = 4096; size <= whole.size(); ++size) {
        write(path, unmarked.substr(0, size));
        if (check::error_of([&] { sizes.insert(Database::open(path).size()); })) CHECK(sizes.empty());
    }
    CHECK((sizes == std::set<std::size_t>{0, 70, 73, 76, 78}));
    CHECK(check::state_of(Database::open(path)) == state);
}

TEST("a header with other values is refused") {
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    make(path);
    const std::string whole = read(path);
    const auto refuses = [&](std::size_t at, std::uint32_t value, idcwh::ErrorCode code, const std::string& found) {
        std::string bytes = whole;
        std::memcpy(bytes.data() + at, &value, 4);
        const std::uint32_t crc = idcwh::crc32c(bytes.data(), 60);
        std::memcpy(bytes.data() + 60, &crc, 4);
        write(path, bytes);
        for (const Access access : {Access::read, Access::write}) {
            try {
                Database::open(path, access);
                CHECK(!"the header is refused");
            } catch (const idcwh::Error& error) {
                CHECK(error.code() == code);
                CHECK(error.path() == path);
                CHECK(error.found() == found);
            }
        }
        CHECK(read(path) == bytes);
    };
    refuses(8, 0, idcwh::ErrorCode::unsupported, "0");
    refuses(8, 2, idcwh::ErrorCode::unsupported, "2");
    refuses(12, 0, idcwh::ErrorCode::corrupt, "0 bits");
    refuses(12, 65536, idcwh::ErrorCode::corrupt, "65536 bits");
    refuses(0, 0, idcwh::ErrorCode::corrupt, "");
}

// Searches and reads texts in a file that is truncated before, between and during the calls.
TEST("a file that is cut off while it is read raises corrupt") {
    const check::Folder folder;
    const std::string path = folder / "codes.bin";
    constexpr std::size_t n = 60000;
    std::string whole;
    {
        std::mt19937 random(4);
        State state{64};
        check::Batch batch{{}, check::random_items(n, 64, random), true};
        for (std::size_t i = 0; i < n; ++i) {
            batch.ids.push_back(static_cast<std::int64_t>(i * 7919 % n));
            batch.items[i].key = "key " + std::to_string(batch.ids[i]);
            batch.items[i].label = "label";
        }
        Database database = Database::create(path, 64);
        batch.with([&](const idcwh::NewItems& items) { database.add(items); });
        const auto gone = check::random_ids((batch.put_into(state), state), 5, random);  // a large record of removals
        database.remove(gone.data(), gone.size());
        database.close();
        whole = read(path);
    }
    const auto query = check::random_codes(1, 64, 5);
    const auto answer = [&](const idcwh::DatabaseSnapshot& snapshot) {
        std::vector<std::int32_t> distances(20);
        std::vector<std::int64_t> ids(20);
        snapshot.topk(query.data(), 1, 20, distances.data(), ids.data());
        std::string text;
        for (const auto id : ids) text += std::string(snapshot.key(id)) + std::string(snapshot.label(id)) + "\n";
        snapshot.check_intact();
        return text;
    };
    const std::string expected = answer(Database::open(path).snapshot());
    CHECK(expected.find("key ") == 0);
    std::size_t failed = 0, answered = 0;
    for (int round = 0; round < 60; ++round) {
        write(path, whole);
        const Database database = Database::open(path);
        const auto snapshot = database.snapshot();
        if (round % 3) CHECK(answer(snapshot) == expected);
        const std::string_view key = "key 7";
        if (round % 5 == 0) CHECK(snapshot.find(&key, 1).size() <= 1);
        std::thread cutter([&] {
            if (round % 2) std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
            std::filesystem::resize_file(path, whole.size() * static_cast<std::size_t>(round % 7) / 9);
        });
        if (round % 2 == 0) cutter.join();
        bool gone = false;
        for (int i = 0; i < 50 && !gone; ++i) {
            const int error = check::error_of([&] {
                CHECK(answer(snapshot) == expected);
                ++answered;
            });
            CHECK((error == 0 || error == corrupt));
            gone = error != 0;
        }
        if (cutter.joinable()) cutter.join();
        failed += gone;
        CHECK(check::error_of([&] { answer(snapshot); }) == corrupt);
        CHECK(check::error_of([&] { snapshot.each([](auto, auto, auto, auto) {}); }) == corrupt);
        CHECK(check::error_of([&] { snapshot.find(&key, 1); }) == corrupt);
        CHECK(!database.check().corrupt.empty());
    }
    // The page in which the file ends causes no signal: bytes after the end read as zeros.
    write(path, whole);
    const auto before = Database::open(path).snapshot();
    const std::int64_t id = before.find(std::array<std::string_view, 1>{"key 4242"}.data(), 1).at(0);
    CHECK(before.key(id) == "key 4242");
    std::filesystem::resize_file(path, whole.find("key 4242"));
    CHECK(check::error_of([&] { before.key(id); }) == corrupt);
    CHECK(check::error_of([&] { before.check_intact(); }) == corrupt);
    std::printf("cut off: %zu answers, %zu errors\n", answered, failed);
    CHECK(failed > 20);

    write(path, whole);
    Database writer = Database::open(path, Access::write);
    std::filesystem::resize_file(path, whole.size() / 2);
    CHECK(check::error_of([&] { writer.compact(); }) == corrupt);
    const std::int64_t first = 7919;
    CHECK(check::error_of([&] { writer.remove(&first, 1); }) == corrupt);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
