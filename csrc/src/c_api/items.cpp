// The C API: keys, labels and other data of the items of a database's snapshot.
#include "c_api/c_api.hpp"

namespace {

using namespace idcwh::c_api;

const idcwh::DatabaseSnapshot& items_of(const idcwh_snapshot* snapshot) {
    const auto* items = std::get_if<idcwh::DatabaseSnapshot>(&expected(snapshot, "snapshot").snapshot);
    if (!items)
        throw idcwh::Error(
            idcwh::ErrorCode::unsupported,
            {.path = "snapshot", .found = "a snapshot of an index", .expected = "a snapshot of a database"});
    return *items;
}

void put_text_or_none(std::string_view from, char* text, std::size_t capacity, std::size_t* length) {
    put_text(from, text, capacity, length);
    if (!from.data()) put(length, IDCWH_NONE);
}

}  // namespace

int idcwh_snapshot_key(const idcwh_snapshot* snapshot, int64_t id, char* text, size_t capacity, size_t* length) {
    return guarded([&] {
        put_text_or_none(items_of(snapshot).key(id), text, capacity, length);
        items_of(snapshot).check_intact();
    });
}

int idcwh_snapshot_label(const idcwh_snapshot* snapshot, int64_t id, char* text, size_t capacity, size_t* length) {
    return guarded([&] {
        put_text_or_none(items_of(snapshot).label(id), text, capacity, length);
        items_of(snapshot).check_intact();
    });
}

int idcwh_snapshot_mtime_signature(const idcwh_snapshot* snapshot, int64_t id, uint32_t* mtime_signature) {
    return guarded([&] { expected(mtime_signature, "mtime_signature") = items_of(snapshot).mtime_signature(id); });
}

int idcwh_snapshot_manifest(const idcwh_snapshot* snapshot, char* text, size_t capacity, size_t* length) {
    return guarded([&] { put_text(items_of(snapshot).manifest(), text, capacity, length); });
}

int idcwh_snapshot_commit(const idcwh_snapshot* snapshot, uint64_t* commit) {
    return guarded([&] { expected(commit, "commit") = items_of(snapshot).commit(); });
}

int idcwh_snapshot_find(const idcwh_snapshot* snapshot, const char* const* keys, const size_t* key_lengths,
                        size_t count, int64_t* ids, size_t capacity, size_t* found) {
    return guarded([&] {
        const auto& items = items_of(snapshot);
        auto& total = expected(found, "found");
        if (capacity) expected(ids, "ids");
        const auto views = keys_of(keys, key_lengths, count);
        const auto all = items.find(views.data(), count);
        std::copy_n(all.data(), std::min(all.size(), capacity), ids);
        total = all.size();
    });
}

int idcwh_snapshot_each(const idcwh_snapshot* snapshot, idcwh_each_item function, void* context) {
    return guarded([&] {
        const auto& items = items_of(snapshot);
        if (!function) fail_null("function");
        items.each([&](std::int64_t id, std::string_view key, std::string_view label, std::uint32_t mtime_signature) {
            const idcwh_item item = {id, key.data(), key.size(), label.data(), label.size(), mtime_signature};
            if (function(context, &item))
                throw idcwh::Error(idcwh::ErrorCode::interrupted, "the function ended the loop");
        });
    });
}

int idcwh_snapshot_codes_in_place(const idcwh_snapshot* snapshot, const uint8_t** codes) {
    return guarded([&] { expected(codes, "codes") = items_of(snapshot).codes_in_place(); });
}
