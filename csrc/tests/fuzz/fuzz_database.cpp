// Opens any bytes as a database, then searches, reads, verifies and writes. Only Error may be thrown. A file without
// findings of check() must be intact and stay so.
#include <idcwh/database.hpp>

#include <fstream>
#include <set>

#include "database_bytes.hpp"
#include "model.hpp"

namespace {

using idcwh::Database;
using Access = idcwh::Database::Access;

const check::Folder& folder() {
    static const check::Folder place;
    return place;
}

// Calls a function that may find the file corrupt. Returns false if it did.
template <class Call>
bool works(Call call) {
    try {
        call();
        return true;
    } catch (const idcwh::Error& error) {
        using enum idcwh::ErrorCode;
        REQUIRE(error.code() == corrupt || error.code() == unsupported || error.code() == invalid_argument);
        if (std::getenv("IDCWH_TEST_VERBOSE")) std::fprintf(stderr, "%s\n", error.what());
        return false;
    }
}

fuzz::Model model_of(const idcwh::DatabaseSnapshot& snapshot) {
    fuzz::Model model;
    model.bits = snapshot.bits();
    model.ids.resize(snapshot.size());
    model.codes.resize(snapshot.size() * model.bytes());
    snapshot.copy(model.codes.data(), model.ids.data());
    return model;
}

void search(const Database& database, bool clean) {
    const auto snapshot = database.snapshot();
    std::vector<std::uint8_t> query(idcwh::code_bytes(snapshot.bits()), 0x55);
    if (snapshot.bits() % 8) query.back() &= static_cast<std::uint8_t>((1 << snapshot.bits() % 8) - 1);
    std::int32_t distances[5];
    std::int64_t ids[5];
    const bool searched = works([&] {
        const std::size_t kept = snapshot.topk(query.data(), 1, 5, distances, ids);
        REQUIRE(kept == std::min<std::size_t>(5, snapshot.size()));
        if (!clean) return;
        const fuzz::Model model = model_of(snapshot);
        fuzz::require_equal(fuzz::ranking(model, query.data(), std::vector<std::uint8_t>(model.size(), 1)), kept,
                            distances, ids);
    });
    std::set<std::int64_t> seen;
    std::string a_key;
    const bool read = works([&] {
        std::size_t bytes = 0;
        snapshot.each(
            [&](std::int64_t id, std::string_view key, std::string_view label, std::uint32_t mtime_signature) {
                for (const char c : key) bytes += c == '/';
                for (const char c : label) bytes += c == ' ';
                bytes += mtime_signature;
                if (!key.empty()) a_key = key;
                seen.insert(id);
            });
    });
    const bool found = works([&] {
        const std::string_view key = a_key;
        const auto with_key = snapshot.find(&key, 1);
        REQUIRE(a_key.empty() || !read || !with_key.empty());
        for (const std::int64_t id : {std::int64_t{0}, std::int64_t{7}, seen.empty() ? 1 : *seen.begin()})
            if (snapshot.contains(id)) snapshot.key(id), snapshot.label(id), snapshot.mtime_signature(id);
    });
    works([&] { snapshot.manifest(); });
    if (clean) REQUIRE(searched && read && found && seen.size() == snapshot.size());
}

void write(const std::string& path, bool clean) {
    Database database = Database::open(path, Access::write);
    const std::size_t before = database.size();
    const std::vector<std::uint8_t> code(idcwh::code_bytes(database.bits()));
    std::int64_t id = -1;
    const bool added = works([&] { database.add({code.data(), 1}, &id); });
    REQUIRE(database.size() == before + added);
    works([&] {
        if (before) database.remove(&id, added);
    });
    const std::size_t now = database.size();
    const bool compacted = works([&] { database.compact(); });
    REQUIRE(database.size() == now);
    // All ids may be used.
    if (clean) REQUIRE(compacted && (added || database.info().next_id == std::uint64_t{1} << 63));
    if (clean) REQUIRE(database.check().corrupt.empty());
    search(database, clean);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string path = folder() / "codes.bin";
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    bool clean = false;
    works([&] {
        Database database = Database::open(path);
        search(database, false);
        const auto found = database.check(1);
        REQUIRE(found.good_items <= found.items);
        clean = found.corrupt.empty();
        if (clean) REQUIRE(found.items == found.good_items && found.items == database.size());
        search(database, clean);
        database.refresh();
        write(path, clean);
        database.refresh();
        search(database, clean);
    });
    return 0;
}
