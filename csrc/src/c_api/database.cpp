// The C API: databases.
#include "c_api/c_api.hpp"

struct idcwh_database {
    idcwh::Database database;
};

namespace {

using namespace idcwh::c_api;
using idcwh::Database;

Database& database_of(idcwh_database* database) { return expected(database, "database").database; }
const Database& database_of(const idcwh_database* database) { return expected(database, "database").database; }

std::string_view json_of(const char* manifest) { return manifest ? manifest : "{}"; }

int create(const char* path, unsigned bits, const char* manifest, int replace, Database::Durability durability,
           idcwh_database** database) {
    return guarded([&] {
        expected(database, "database") = nullptr;
        *database = new idcwh_database{
            Database::create(&expected(path, "path"), bits, json_of(manifest), replace != 0, durability)};
    });
}

// Calls body() with the items in C++ form.
template <class Body>
void with_items(const idcwh_items* items, Body body) {
    const auto& from = expected(items, "items");
    idcwh::NewItems cpp{from.codes, from.size, from.ids, nullptr, nullptr, from.mtime_signatures};
    std::vector<std::string_view> keys, labels;
    if (from.keys) keys = views_of(from.keys, from.key_lengths, from.size), cpp.keys = keys.data();
    if (from.labels) labels = views_of(from.labels, from.label_lengths, from.size), cpp.labels = labels.data();
    body(cpp);
}

}  // namespace

int idcwh_database_open(const char* path, int write, idcwh_database** database) {
    return guarded([&] {
        expected(database, "database") = nullptr;
        const auto access = write ? Database::Access::write : Database::Access::read;
        *database = new idcwh_database{Database::open(&expected(path, "path"), access)};
    });
}

int idcwh_database_create(const char* path, unsigned bits, const char* manifest, int replace,
                          idcwh_database** database) {
    return create(path, bits, manifest, replace, Database::Durability::every_change, database);
}

int idcwh_database_build(const char* path, unsigned bits, const char* manifest, int replace,
                         idcwh_database** database) {
    return create(path, bits, manifest, replace, Database::Durability::on_close, database);
}

int idcwh_database_publish(idcwh_database* database) {
    return guarded([&] { database_of(database).publish(); });
}

void idcwh_database_free(idcwh_database* database) { delete database; }

const char* idcwh_database_path(const idcwh_database* database) {
    return database ? database->database.path().c_str() : nullptr;
}
unsigned idcwh_database_bits(const idcwh_database* database) { return database ? database->database.bits() : 0; }
size_t idcwh_database_size(const idcwh_database* database) { return database ? database->database.size() : 0; }
int idcwh_database_writable(const idcwh_database* database) { return database && database->database.writable(); }

int idcwh_database_get_info(const idcwh_database* database, idcwh_database_info* info) {
    return guarded([&] {
        const auto from = database_of(database).info();
        expected(info, "info") = {from.items,  from.removed, from.segments, from.bytes,
                                  from.unused, from.commit,  from.next_id};
    });
}

int idcwh_database_refresh(idcwh_database* database, int* changed) {
    return guarded([&] { put(changed, int{database_of(database).refresh()}); });
}

int idcwh_database_snapshot(const idcwh_database* database, idcwh_snapshot** snapshot) {
    return guarded([&] {
        expected(snapshot, "snapshot") = nullptr;
        *snapshot = new idcwh_snapshot{database_of(database).snapshot()};
    });
}

int idcwh_database_add(idcwh_database* database, const idcwh_items* items, int64_t* assigned) {
    return guarded([&] { with_items(items, [&](const auto& cpp) { database_of(database).add(cpp, assigned); }); });
}

int idcwh_database_remove(idcwh_database* database, const int64_t* ids, size_t count, size_t* removed) {
    return guarded([&] { put(removed, database_of(database).remove(ids, count)); });
}

int idcwh_database_remove_keys(idcwh_database* database, const char* const* keys, const size_t* key_lengths,
                               size_t count, size_t* removed) {
    return guarded([&] {
        const auto views = keys_of(keys, key_lengths, count);
        put(removed, database_of(database).remove_keys(views.data(), count));
    });
}

int idcwh_database_replace(idcwh_database* database, const idcwh_items* items) {
    return guarded([&] { with_items(items, [&](const auto& cpp) { database_of(database).replace(cpp); }); });
}

int idcwh_database_update(idcwh_database* database, const int64_t* removed, size_t removed_count,
                          const idcwh_items* items, int64_t* assigned) {
    return guarded([&] {
        with_items(items,
                   [&](const auto& cpp) { database_of(database).update(removed, removed_count, cpp, assigned); });
    });
}

int idcwh_database_set_manifest(idcwh_database* database, const char* json) {
    return guarded([&] { database_of(database).set_manifest(&expected(json, "json")); });
}

int idcwh_database_compact(idcwh_database* database) {
    return guarded([&] { database_of(database).compact(); });
}

int idcwh_database_set_auto_compact(idcwh_database* database, int on) {
    return guarded([&] { database_of(database).set_auto_compact(on != 0); });
}

int idcwh_database_optimize(idcwh_database* database, const idcwh_optimize_options* options) {
    return guarded([&] { with_options(options, [&](const auto& cpp) { database_of(database).optimize(cpp); }); });
}

int idcwh_database_drop_structures(idcwh_database* database) {
    return guarded([&] { database_of(database).drop_structures(); });
}

int idcwh_database_check(const idcwh_database* database, unsigned threads, idcwh_verification* result, char* text,
                         size_t capacity, size_t* length) {
    return guarded([&] {
        auto& out = expected(result, "result");
        const auto found = database_of(database).check(threads);
        out = {found.corrupt.size(), found.items, found.good_items, found.torn};
        std::string lines;
        for (const auto& range : found.corrupt)
            lines += "byte " + std::to_string(range.offset) + ", " + std::to_string(range.length) +
                     " bytes: " + range.what + "\n";
        put_text(lines, text, capacity, length);
    });
}

int idcwh_database_verify(const idcwh_database* database, unsigned threads, idcwh_verification* result, char* text,
                          size_t capacity, size_t* length) {
    return idcwh_database_check(database, threads, result, text, capacity, length);
}
