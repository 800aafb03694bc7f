// The oracle of databases: a std::map of items, and random steps for a map and a database alike.
#pragma once

#include <idcwh/database.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "check.hpp"

namespace check {

struct Item {
    std::vector<std::uint8_t> code;
    std::string key;                   // empty: no key
    std::optional<std::string> label;  // may be empty
    std::uint32_t mtime_signature = 0;
    idcwh::Checksum checksum = {};
    bool operator==(const Item&) const = default;
};

struct State {
    unsigned bits = 0;
    std::int64_t next = 0;
    std::string manifest = "{}";
    std::map<std::int64_t, Item> items;
    bool operator==(const State&) const = default;
};

// Returns the items that a database returns. Fails if it returns an item twice.
inline State state_of(const idcwh::Database& database) {
    const auto snapshot = database.snapshot();
    State state{database.bits(), static_cast<std::int64_t>(database.info().next_id), snapshot.manifest(), {}};
    const std::size_t bytes = idcwh::code_bytes(state.bits);
    std::vector<std::uint8_t> codes(snapshot.size() * bytes);
    std::vector<std::int64_t> ids(snapshot.size());
    snapshot.copy(codes.data(), ids.data());
    std::vector<idcwh::Checksum> checksums(snapshot.size());
    snapshot.checksums(checksums.data());
    std::size_t row = 0;
    snapshot.each([&](std::int64_t id, std::string_view key, std::string_view label, std::uint32_t mtime_signature) {
        const std::uint8_t* code = codes.data() + row * bytes;
        Item item{{code, code + bytes}, std::string(key), std::nullopt, mtime_signature, checksums[row]};
        if (label.data()) item.label = std::string(label);
        CHECK((row < ids.size() && ids[row] == id));
        CHECK(state.items.emplace(id, std::move(item)).second);
        ++row;
    });
    CHECK(row == ids.size());
    return state;
}

// Items to add, with the memory that NewItems points into.
struct Batch {
    std::vector<std::int64_t> ids;
    std::vector<Item> items;
    bool give_ids = false;

    template <class Call>
    void with(Call call) const {
        std::vector<std::uint8_t> codes;
        std::vector<std::string_view> keys, labels;
        std::vector<std::uint32_t> mtime_signatures;
        std::vector<idcwh::Checksum> checksums;
        bool any_key = false, any_label = false, any_mtime_signature = false, any_checksum = false;
        for (const Item& item : items) {
            codes.insert(codes.end(), item.code.begin(), item.code.end());
            keys.push_back(item.key);
            labels.push_back(item.label ? std::string_view(*item.label) : std::string_view());
            mtime_signatures.push_back(item.mtime_signature);
            any_key |= !item.key.empty(), any_label |= item.label.has_value(),
                any_mtime_signature |= item.mtime_signature != 0;
            checksums.push_back(item.checksum);
            any_checksum |= item.checksum != idcwh::Checksum{};
        }
        call(idcwh::NewItems{codes.data(), items.size(), give_ids ? ids.data() : nullptr,
                             any_key ? keys.data() : nullptr, any_label ? labels.data() : nullptr,
                             any_mtime_signature ? mtime_signatures.data() : nullptr,
                             any_checksum ? checksums.data() : nullptr});
    }
    void put_into(State& state) const {
        for (std::size_t i = 0; i < items.size(); ++i) {
            state.items[ids[i]] = items[i];
            state.next = std::max(state.next, ids[i] + 1);
        }
    }
};

inline std::vector<Item> random_items(std::size_t n, unsigned bits, std::mt19937& random) {
    const auto codes = random_codes(n, bits, static_cast<std::uint32_t>(random()));
    const std::size_t bytes = idcwh::code_bytes(bits);
    const bool keys = random() % 4, labels = random() % 3, mtime_signatures = random() % 3 == 0,
               sums = random() % 3 == 0;
    std::vector<Item> items(n);
    for (std::size_t i = 0; i < n; ++i) {
        items[i].code.assign(codes.data() + i * bytes, codes.data() + (i + 1) * bytes);
        if (keys && random() % 8) items[i].key = "image/" + std::to_string(random() % 5000) + ".jpg";
        if (labels && random() % 8) items[i].label = random() % 9 ? "class " + std::to_string(random() % 7) : "";
        if (mtime_signatures) items[i].mtime_signature = static_cast<std::uint32_t>(random());
        if (sums && random() % 8) items[i].checksum = {random(), random()};
    }
    return items;
}

inline Batch random_batch(const State& state, std::size_t n, std::mt19937& random) {
    Batch batch{{}, random_items(n, state.bits, random), random() % 2 == 0};
    const bool shuffled = random() % 2, low = random() % 2;
    std::map<std::int64_t, bool> taken;
    std::int64_t at = state.next;
    for (std::size_t i = 0; i < n; ++i) {
        std::int64_t id = at++;
        if (batch.give_ids && random() % 3 == 0) at += static_cast<std::int64_t>(random() % 5);
        if (batch.give_ids && low && random() % 4 == 0) {
            const auto other = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(state.next + 1));
            if (!state.items.count(other) && !taken.count(other)) id = other;
        }
        taken[id] = true;
        batch.ids.push_back(id);
    }
    if (batch.give_ids && shuffled) std::shuffle(batch.ids.begin(), batch.ids.end(), random);
    return batch;
}

inline std::vector<std::int64_t> random_ids(const State& state, std::size_t share, std::mt19937& random) {
    std::vector<std::int64_t> ids;
    for (const auto& [id, item] : state.items)
        if (random() % share == 0) ids.push_back(id);
    return ids;
}

// Applies one random change. Sets `after` before the database is changed, so that it is known if the change throws.
inline void random_step(idcwh::Database& database, const State& before, State& after, std::size_t most,
                        std::mt19937& random) {
    after = before;
    const std::size_t n = 1 + random() % (random() % 4 ? 8 : most), share = 2 + random() % 12;
    std::vector<std::int64_t> ids;
    Batch batch;
    switch (random() % 12) {
        default:
            batch = random_batch(before, n, random);
            batch.put_into(after);
            batch.with([&](const idcwh::NewItems& items) {
                std::vector<std::int64_t> assigned(items.size, -1);
                database.add(items, assigned.data());
                CHECK(assigned == batch.ids);
            });
            return;
        case 0:
        case 1:
            ids = random_ids(before, share, random);
            for (const auto id : ids) after.items.erase(id);
            if (!ids.empty()) ids.push_back(ids.front());
            CHECK(database.remove(ids.data(), ids.size()) == before.items.size() - after.items.size());
            return;
        case 2: {
            ids = random_ids(before, 4 * share, random);
            std::vector<std::string_view> keys;
            for (const auto id : ids)
                if (const auto& key = before.items.at(id).key; !key.empty()) keys.push_back(key);
            std::erase_if(after.items, [&](const auto& entry) {
                return !entry.second.key.empty() && std::find(keys.begin(), keys.end(), entry.second.key) != keys.end();
            });
            CHECK(database.remove_keys(keys.data(), keys.size()) == before.items.size() - after.items.size());
            return;
        }
        case 3:
            batch.ids = random_ids(before, share, random);
            batch.items = random_items(batch.ids.size(), before.bits, random);
            batch.give_ids = true;
            batch.put_into(after);
            batch.with([&](const idcwh::NewItems& items) { database.replace(items); });
            return;
        case 4:
        case 5:
            ids = random_ids(before, share, random);
            batch = random_batch(before, n, random);
            for (const auto id : ids) after.items.erase(id);
            batch.put_into(after);
            batch.with([&](const idcwh::NewItems& items) { database.update(ids.data(), ids.size(), items); });
            return;
        case 6:
            if (random() % 2) {
                database.compact();
                return;
            }
            after.manifest = "{\"n\": " + std::string(random() % 200, '1') + std::to_string(random()) + "}";
            database.set_manifest(after.manifest);
            return;
    }
}

// A new folder, in memory if the system supports it, so that syncs are fast.
class Folder {
public:
    Folder() {
        const std::filesystem::path memory = "/dev/shm";
        auto name =
            (std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path()) / "idcwh.XXXXXX";
        std::string text = name.string();
        if (!mkdtemp(text.data())) std::abort();
        path_ = text;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

// Returns the code of the error that call() throws; 0: no error.
template <class Call>
int error_of(Call call) {
    try {
        call();
    } catch (const idcwh::Error& error) {
        return static_cast<int>(error.code());
    }
    return 0;
}

inline double test_seconds(double standard) {
    const char* text = std::getenv("IDCWH_TEST_SECONDS");
    return text ? std::atof(text) : standard;
}

}  // namespace check
