// The C ABI of databases: changes, several handles, the builder and a corrupt file. Each invalid argument raises an
// error with the found and the expected value.
#include "check.h"

#include <errno.h>
#include <unistd.h>

enum { bits = 12 };
static const uint8_t query[2] = {0, 0};
static const uint8_t codes[8] = {0, 0, 0x07, 0, 0, 0x08, 0x10, 0};  // at distances 0, 3, 1, 1 from zero
static char folder[] = "/tmp/idcwh-XXXXXX";
static char path[64], other_path[64];
static int32_t distances[8];
static int64_t ids[8];
static size_t kept;

static const char* const keys[4] = {"a.jpg", "b.jpg", NULL, "a.jpg"};
static const char* const labels[4] = {"cat", NULL, "", "dog"};
static const uint32_t mtime_signatures[4] = {7, 0, 8, 9};

static idcwh_items items_of(size_t size, const int64_t* own) {
    idcwh_items items = {0};
    items.codes = codes, items.size = size, items.ids = own;
    items.keys = keys, items.labels = labels, items.mtime_signatures = mtime_signatures;
    return items;
}

static idcwh_database* opened(int write) {
    idcwh_database* db = NULL;
    CHECK(idcwh_database_open(path, write, &db) == IDCWH_OK && idcwh_database_writable(db) == write);
    return db;
}

// True if the call succeeds and writes the expected text and length.
#define HAS_TEXT(call, expected) ((call) == IDCWH_OK && length == strlen(expected) && strcmp(text, expected) == 0)

typedef struct {
    int64_t ids[8];
    char text[200];
    size_t count, stop_at;
} seen_items;

static int see(void* context, const idcwh_item* item) {
    seen_items* seen = (seen_items*)context;
    char line[50];
    snprintf(line, sizeof line, "%.*s/%.*s/%u ", (int)item->key_length, item->key ? item->key : "",
             item->label ? (int)item->label_length : 1, item->label ? item->label : "-",
             (unsigned)item->mtime_signature);
    strcat(seen->text, line);
    seen->ids[seen->count++] = item->id;
    return seen->count == seen->stop_at;
}

static void what_items_are(const idcwh_database* db) {
    idcwh_snapshot* view = NULL;
    char text[20];
    uint32_t mtime_signature = 0;
    uint64_t commit = 0;
    size_t length = 0;
    CHECK(idcwh_database_snapshot(db, &view) == IDCWH_OK && idcwh_snapshot_size(view) == 4);
    CHECK(idcwh_snapshot_topk(view, query, 1, 4, NULL, distances, ids, &kept) == IDCWH_OK && kept == 4);
    CHECK(ids[0] == 0 && ids[1] == 2 && ids[2] == 3 && ids[3] == 1 && distances[3] == 3);

    CHECK(HAS_TEXT(idcwh_snapshot_key(view, 1, text, sizeof text, &length), "b.jpg"));
    CHECK(idcwh_snapshot_key(view, 1, NULL, 0, &length) == IDCWH_OK && length == 5);
    CHECK(idcwh_snapshot_key(view, 1, text, 3, NULL) == IDCWH_OK && strcmp(text, "b.") == 0);
    CHECK(idcwh_snapshot_key(view, 2, text, sizeof text, &length) == IDCWH_OK && length == IDCWH_NONE && !*text);
    CHECK(HAS_TEXT(idcwh_snapshot_label(view, 3, text, sizeof text, &length), "dog"));
    CHECK(HAS_TEXT(idcwh_snapshot_label(view, 2, text, sizeof text, &length), ""));
    CHECK(idcwh_snapshot_label(view, 1, text, sizeof text, &length) == IDCWH_OK && length == IDCWH_NONE && !*text);
    CHECK(idcwh_snapshot_mtime_signature(view, 3, &mtime_signature) == IDCWH_OK && mtime_signature == 9);
    CHECK(HAS_TEXT(idcwh_snapshot_manifest(view, text, sizeof text, &length), "{\"a\": 1}"));
    CHECK(idcwh_snapshot_commit(view, &commit) == IDCWH_OK && commit == 2);

    const char* const wanted[] = {"a.jpg", "no such.jpg", NULL};
    const size_t lengths[] = {5, 11, 0}, shorter[] = {4, 0, 0};
    CHECK(idcwh_snapshot_find(view, wanted, NULL, 3, ids, 8, &kept) == IDCWH_OK);
    CHECK(kept == 2 && ids[0] == 0 && ids[1] == 3);
    ids[1] = -7;
    CHECK(idcwh_snapshot_find(view, wanted, lengths, 3, ids, 1, &kept) == IDCWH_OK);
    CHECK(kept == 2 && ids[0] == 0 && ids[1] == -7);
    CHECK(idcwh_snapshot_find(view, wanted, shorter, 3, NULL, 0, &kept) == IDCWH_OK && kept == 0);

    seen_items seen = {0};
    CHECK(idcwh_snapshot_each(view, see, &seen) == IDCWH_OK && seen.count == 4 && seen.ids[3] == 3);
    CHECK(strcmp(seen.text, "a.jpg/cat/7 b.jpg/-/0 //8 a.jpg/dog/9 ") == 0);
    seen_items two = {0};
    two.stop_at = 2;
    REFUSED(IDCWH_INTERRUPTED, "function", idcwh_snapshot_each(view, see, &two));
    CHECK(two.count == 2);
    const uint8_t* place = NULL;
    CHECK(idcwh_snapshot_codes_in_place(view, &place) == IDCWH_OK && place && memcmp(place, codes, 8) == 0);

    idcwh_snapshot_free(view);
}

static void life(void) {
    idcwh_database* db = NULL;
    idcwh_database_info info;
    int64_t assigned[4];
    CHECK(idcwh_database_create(path, bits, "{\"a\": 1}", 0, &db) == IDCWH_OK);
    CHECK(idcwh_database_bits(db) == bits && idcwh_database_size(db) == 0 && idcwh_database_writable(db) == 1);
    CHECK(strcmp(idcwh_database_path(db), path) == 0);
    idcwh_items items = items_of(4, NULL);
    CHECK(idcwh_database_add(db, &items, assigned) == IDCWH_OK && assigned[0] == 0 && assigned[3] == 3);
    what_items_are(db);
    idcwh_database_free(db);

    db = opened(0);
    what_items_are(db);
    CHECK(idcwh_database_get_info(db, &info) == IDCWH_OK && info.items == 4 && info.next_id == 4 && info.segments == 1);
    idcwh_database_free(db);

    // Changes. An earlier snapshot sees none of them and outlives the handle.
    idcwh_snapshot *before = NULL, *after = NULL;
    const int64_t gone[] = {2, 2, 3}, again[] = {1}, two[] = {0, 1};
    const size_t lengths[] = {1, 1, 0, 5};
    const char* const one_key[] = {"b"};
    char text[20];
    size_t length = 0;
    db = opened(1);
    CHECK(idcwh_database_set_auto_compact(db, 0) == IDCWH_OK);
    CHECK(idcwh_database_snapshot(db, &before) == IDCWH_OK);
    CHECK(idcwh_database_remove(db, gone, 3, &kept) == IDCWH_OK && kept == 2 && idcwh_database_size(db) == 2);
    items = items_of(1, again);
    items.codes = codes + 4, items.labels = NULL, items.key_lengths = lengths, items.keys = keys + 1;
    CHECK(idcwh_database_replace(db, &items) == IDCWH_OK && idcwh_database_size(db) == 2);  // b.jpg gets the key b
    items = items_of(2, NULL);
    CHECK(idcwh_database_update(db, again, 1, &items, assigned) == IDCWH_OK && assigned[0] == 4 && assigned[1] == 5);
    CHECK(idcwh_database_size(db) == 3);
    REFUSED(IDCWH_NOT_FOUND, "key b", idcwh_database_remove_keys(db, one_key, NULL, 1, &kept));
    CHECK(idcwh_database_remove_keys(db, keys, NULL, 1, &kept) == IDCWH_OK && kept == 2);  // ids 0 and 4
    CHECK(idcwh_database_set_manifest(db, "[]") == IDCWH_OK);
    CHECK(idcwh_database_snapshot(db, &after) == IDCWH_OK && idcwh_snapshot_size(after) == 1);
    CHECK(HAS_TEXT(idcwh_snapshot_key(after, 5, text, sizeof text, &length), "b.jpg"));
    CHECK(HAS_TEXT(idcwh_snapshot_manifest(after, text, sizeof text, &length), "[]"));
    CHECK(idcwh_database_get_info(db, &info) == IDCWH_OK && info.items == 1 && info.unused > 0 && info.next_id == 6);
    const uint64_t unused = info.unused;
    CHECK(idcwh_database_compact(db) == IDCWH_OK && idcwh_database_get_info(db, &info) == IDCWH_OK);
    CHECK(info.items == 1 && info.removed == 0 && info.unused < unused && info.next_id == 6);
    idcwh_database_free(db);
    CHECK(idcwh_snapshot_topk(before, query, 1, 8, NULL, distances, ids, &kept) == IDCWH_OK && kept == 4 &&
          ids[1] == 2);
    CHECK(idcwh_snapshot_get(before, two, 2, (uint8_t*)text) == IDCWH_OK && memcmp(text, codes, 4) == 0);
    CHECK(HAS_TEXT(idcwh_snapshot_manifest(before, text, sizeof text, &length), "{\"a\": 1}"));
    idcwh_snapshot_free(before), idcwh_snapshot_free(after);
    idcwh_database_free(NULL);
}

// A reader beside a writer. A second writer is refused.
static void two_handles(void) {
    idcwh_database *writer = opened(1), *reader = opened(0), *second = (idcwh_database*)codes;
    int changed = -1;
    REFUSED(IDCWH_LOCKED, path, idcwh_database_open(path, 1, &second));
    CHECK(second == NULL && idcwh_last_errno() == 0 && strcmp(idcwh_last_error_path(), path) == 0);
    CHECK(idcwh_database_refresh(reader, &changed) == IDCWH_OK && changed == 0);
    const idcwh_items items = items_of(2, NULL);
    CHECK(idcwh_database_add(writer, &items, NULL) == IDCWH_OK);
    CHECK(idcwh_database_size(writer) == 3 && idcwh_database_size(reader) == 1);
    CHECK(idcwh_database_refresh(reader, &changed) == IDCWH_OK && changed == 1 && idcwh_database_size(reader) == 3);
    CHECK(idcwh_database_compact(writer) == IDCWH_OK);  // writes another file, which the reader opens by its name
    CHECK(idcwh_database_remove(writer, (int64_t[]){5}, 1, NULL) == IDCWH_OK);
    CHECK(idcwh_database_refresh(reader, NULL) == IDCWH_OK && idcwh_database_size(reader) == 2);
    idcwh_database_free(writer);
    CHECK(idcwh_database_open(path, 1, &second) == IDCWH_OK);
    idcwh_database_free(second), idcwh_database_free(reader);
}

static void building(void) {
    idcwh_database* db = (idcwh_database*)codes;
    int64_t assigned[4];
    const int64_t own[] = {30, 20, 10, 40};
    CHECK(idcwh_database_build(other_path, bits, NULL, 0, &db) == IDCWH_OK);
    idcwh_items items = items_of(4, own);
    CHECK(idcwh_database_add(db, &items, assigned) == IDCWH_OK && assigned[1] == 20);
    INVALID("30", idcwh_database_add(db, &items, NULL));
    CHECK(idcwh_database_size(db) == 4 && access(other_path, F_OK) != 0);
    idcwh_database_free(db);  // not published, so no file exists
    CHECK(access(other_path, F_OK) != 0);

    CHECK(idcwh_database_build(other_path, bits, NULL, 0, &db) == IDCWH_OK);
    CHECK(idcwh_database_add(db, &items, NULL) == IDCWH_OK);
    items = items_of(1, NULL);
    CHECK(idcwh_database_add(db, &items, assigned) == IDCWH_OK && assigned[0] == 41);
    CHECK(idcwh_database_publish(db) == IDCWH_OK && idcwh_database_size(db) == 5 && access(other_path, F_OK) == 0);
    CHECK(idcwh_database_add(db, &items, assigned) == IDCWH_OK && assigned[0] == 42);
    idcwh_database_free(db);

    db = (idcwh_database*)codes;
    REFUSED(IDCWH_SYSTEM, other_path, idcwh_database_build(other_path, bits, NULL, 0, &db));
    CHECK(db == NULL && idcwh_last_errno() == EEXIST && strcmp(idcwh_last_error_path(), other_path) == 0);
    CHECK(idcwh_database_build(other_path, 8, NULL, 1, &db) == IDCWH_OK);
    CHECK(idcwh_database_publish(db) == IDCWH_OK);
    idcwh_database_free(db);
    CHECK(idcwh_database_open(other_path, 0, &db) == IDCWH_OK && idcwh_database_bits(db) == 8);
    idcwh_database_free(db);
    unlink(other_path);
}

static void overwrite(const char* name, long at, const void* data, size_t size) {
    FILE* file = fopen(name, "r+b");
    CHECK(file && fseek(file, at, SEEK_SET) == 0 && fwrite(data, 1, size, file) == size);
    if (file) fclose(file);
}

// Changes a code directly in the file. check() and the first search find it.
static void corrupt_file(void) {
    enum { many = 1000, wide = 1024 };
    static uint8_t memory[many * wide / 8];
    for (size_t i = 0; i < sizeof memory; ++i) memory[i] = (uint8_t)(i * 2654435761u >> 24);
    idcwh_database* db = NULL;
    idcwh_snapshot* view = NULL;
    idcwh_verification result;
    idcwh_items items = {0};
    char text[1000];
    size_t length = 1, span = 0;
    items.codes = memory, items.size = many;
    CHECK(idcwh_database_create(other_path, wide, NULL, 0, &db) == IDCWH_OK);
    CHECK(idcwh_database_add(db, &items, NULL) == IDCWH_OK);
    idcwh_database_free(db);
    CHECK(idcwh_database_open(other_path, 0, &db) == IDCWH_OK);
    CHECK(idcwh_database_check(db, 0, &result, text, sizeof text, &length) == IDCWH_OK && length == 0 && !*text);
    CHECK(result.corrupt_ranges == 0 && result.items == many && result.good_items == many && result.torn == 0);
    idcwh_database_free(db);

    const uint8_t other = (uint8_t)~memory[70000];
    long at = -1;
    FILE* file = fopen(other_path, "rb");
    static uint8_t content[sizeof memory + 50000];
    const size_t size = file ? fread(content, 1, sizeof content, file) : 0;
    if (file) fclose(file);
    for (size_t i = 0; i + sizeof memory <= size && at < 0; i += 64)
        if (memcmp(content + i, memory, sizeof memory) == 0) at = (long)i + 70000;
    CHECK(at > 0);
    overwrite(other_path, at, &other, 1);
    overwrite(other_path, (long)size, "torn", 4);
    CHECK(idcwh_database_open(other_path, 0, &db) == IDCWH_OK);
    CHECK(idcwh_database_check(db, 0, &result, text, sizeof text, &length) == IDCWH_OK && length == strlen(text));
    CHECK(result.corrupt_ranges == 1 && result.items == many && result.good_items == 0 && result.torn == 4);
    CHECK(idcwh_database_verify(db, 0, &result, NULL, 0, &span) == IDCWH_OK && span == length &&
          result.corrupt_ranges == 1);
    unsigned long long offset = 0, bytes = 0;
    CHECK(sscanf(text, "byte %llu, %llu bytes: ", &offset, &bytes) == 2 && text[length - 1] == '\n');
    CHECK(offset <= (unsigned long long)at && (unsigned long long)at < offset + bytes);
    CHECK(idcwh_database_snapshot(db, &view) == IDCWH_OK);
    REFUSED(IDCWH_CORRUPT, other_path, idcwh_snapshot_topk(view, memory, 1, 1, NULL, distances, ids, &kept));
    idcwh_snapshot_free(view), idcwh_database_free(db);

    overwrite(other_path, 0, "text", 4);
    REFUSED(IDCWH_CORRUPT, other_path, idcwh_database_open(other_path, 0, &db));
    CHECK(db == NULL && idcwh_last_errno() == 0);
    unlink(other_path);
    REFUSED(IDCWH_SYSTEM, other_path, idcwh_database_open(other_path, 0, &db));
    CHECK(idcwh_last_errno() == ENOENT);
    REFUSED(IDCWH_SYSTEM, folder, idcwh_database_open(folder, 0, &db));
    CHECK(idcwh_last_errno() == EISDIR && strcmp(idcwh_last_error_path(), folder) == 0);
    INVALID("path|null", idcwh_database_open(NULL, 0, &db));
    CHECK(strcmp(idcwh_last_error_path(), "path") == 0);
}

// Later snapshots report and search the structures that optimize builds.
static void optimizing(void) {
    static const uint8_t many[1000 * 2] = {[14] = 3};
    idcwh_database* db = NULL;
    idcwh_snapshot* view = NULL;
    idcwh_items items = {0};
    size_t length = 0;
    items.codes = many, items.size = 1000;
    CHECK(idcwh_database_create(other_path, bits, NULL, 0, &db) == IDCWH_OK);
    CHECK(idcwh_database_add(db, &items, NULL) == IDCWH_OK);
    for (int turn = 0; turn < 3; ++turn) {
        const idcwh_optimize_options tiny = {.memory = 1};
        if (turn == 0) CHECK(idcwh_database_optimize(db, NULL) == IDCWH_OK);
        if (turn == 1) CHECK(idcwh_database_drop_structures(db) == IDCWH_OK);
        if (turn == 2) CHECK(idcwh_database_optimize(db, &tiny) == IDCWH_OK);
        CHECK(idcwh_database_snapshot(db, &view) == IDCWH_OK);
        CHECK(idcwh_snapshot_structures(view, NULL, 0, &length) == IDCWH_OK && (length > 0) == (turn == 0));
        CHECK(idcwh_snapshot_topk(view, many + 14, 1, 3, NULL, distances, ids, &kept) == IDCWH_OK && kept == 3);
        CHECK(ids[0] == 7 && ids[1] == 0 && ids[2] == 1 && distances[0] == 0 && distances[2] == 2);
        idcwh_snapshot_free(view);
    }
    REFUSED(IDCWH_INVALID_ARGUMENT, "database", idcwh_database_optimize(NULL, NULL));
    REFUSED(IDCWH_INVALID_ARGUMENT, "database", idcwh_database_drop_structures(NULL));
    idcwh_database_free(db);
    unlink(other_path);
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/codes.bin", folder);
    snprintf(other_path, sizeof other_path, "%s/other.bin", folder);
    life();
    two_handles();
    building();
    optimizing();
    corrupt_file();
    unlink(path);
    CHECK(rmdir(folder) == 0);  // fails if a temporary file is left
    if (failures) printf("%d checks failed\n", failures);
    return failures ? 1 : 0;
}
