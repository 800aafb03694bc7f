// The C ABI of databases: an error with the found and the expected value for each invalid argument.
#include "check.h"

#include <unistd.h>

enum { bits = 12 };
static const uint8_t codes[4] = {0, 0, 0x07, 0};
static const char* const keys[2] = {"a.jpg", NULL};
static char folder[] = "/tmp/idcwh-XXXXXX";
static char path[64], other_path[64];
static int64_t ids[8];
static size_t kept;

static idcwh_items items_of(size_t size, const int64_t* given) {
    idcwh_items items = {0};
    items.codes = codes, items.size = size, items.ids = given, items.keys = keys;
    return items;
}

static int never(void* context, const idcwh_item* item) {
    (void)context, (void)item;
    CHECK(!"called");
    return 0;
}

static void bad_changes(void) {
    idcwh_database* db = NULL;
    const int64_t given[] = {5, 6}, negative[] = {70, -1}, twice[] = {70, 70}, there[] = {70, 6}, missing[] = {6, 99};
    const uint8_t padded[2] = {0, 0x10};
    idcwh_items items = items_of(2, given);
    CHECK(idcwh_database_create(path, bits, NULL, 0, &db) == IDCWH_OK);
    CHECK(idcwh_database_add(db, &items, NULL) == IDCWH_OK);
    items.ids = negative;
    INVALID("-1", idcwh_database_add(db, &items, NULL));
    items.ids = twice;
    INVALID("70", idcwh_database_add(db, &items, NULL));
    items.ids = there;
    INVALID("6", idcwh_database_add(db, &items, NULL));
    items.ids = missing;
    REFUSED(IDCWH_NOT_FOUND, "99", idcwh_database_replace(db, &items));
    items.ids = NULL;
    INVALID("ids|null", idcwh_database_replace(db, &items));
    items.codes = NULL;
    INVALID("codes|null|2", idcwh_database_add(db, &items, NULL));
    items.codes = padded, items.size = 1;
    INVALID("padding", idcwh_database_add(db, &items, NULL));
    items.keys = NULL, items.size = SIZE_MAX;
    INVALID("size|address space", idcwh_database_add(db, &items, NULL));
    REFUSED(IDCWH_NOT_FOUND, "99", idcwh_database_remove(db, missing, 2, &kept));
    INVALID("ids|null", idcwh_database_remove(db, NULL, 1, &kept));
    INVALID("ids|null", idcwh_database_update(db, NULL, 1, &(idcwh_items){0}, NULL));
    INVALID("keys|null", idcwh_database_remove_keys(db, NULL, NULL, 1, &kept));
    INVALID("items|null", idcwh_database_add(db, NULL, NULL));
    INVALID("items|null", idcwh_database_replace(db, NULL));
    INVALID("items|null", idcwh_database_update(db, there, 1, NULL, NULL));
    INVALID("json|null", idcwh_database_set_manifest(db, NULL));
    INVALID("info|null", idcwh_database_get_info(db, NULL));
    INVALID("result|null", idcwh_database_check(db, 0, NULL, NULL, 0, NULL));
    INVALID("snapshot|null", idcwh_database_snapshot(db, NULL));
    CHECK(idcwh_database_size(db) == 2);
    idcwh_database_free(db);

    CHECK(idcwh_database_open(path, 0, &db) == IDCWH_OK && idcwh_database_size(db) == 2);
    items = items_of(1, NULL);
    INVALID("reading", idcwh_database_add(db, &items, NULL));
    INVALID("reading", idcwh_database_remove(db, given, 1, NULL));
    INVALID("reading", idcwh_database_compact(db));
    idcwh_database_free(db);
}

static void bad_views(void) {
    idcwh_database* db = NULL;
    idcwh_snapshot* view = NULL;
    char text[9];
    uint32_t mtime_signature;
    size_t length;
    CHECK(idcwh_database_open(path, 0, &db) == IDCWH_OK && idcwh_database_snapshot(db, &view) == IDCWH_OK);
    REFUSED(IDCWH_NOT_FOUND, "99", idcwh_snapshot_key(view, 99, text, sizeof text, &length));
    REFUSED(IDCWH_NOT_FOUND, "99", idcwh_snapshot_label(view, 99, text, sizeof text, &length));
    REFUSED(IDCWH_NOT_FOUND, "-1", idcwh_snapshot_mtime_signature(view, -1, &mtime_signature));
    INVALID("text|null", idcwh_snapshot_key(view, 5, NULL, 9, &length));
    INVALID("mtime_signature|null", idcwh_snapshot_mtime_signature(view, 5, NULL));
    INVALID("commit|null", idcwh_snapshot_commit(view, NULL));
    INVALID("keys|null", idcwh_snapshot_find(view, NULL, NULL, 1, ids, 8, &kept));
    INVALID("ids|null", idcwh_snapshot_find(view, keys, NULL, 1, NULL, 1, &kept));
    INVALID("found|null", idcwh_snapshot_find(view, keys, NULL, 1, ids, 1, NULL));
    INVALID("function|null", idcwh_snapshot_each(view, NULL, NULL));
    INVALID("codes|null", idcwh_snapshot_codes_in_place(view, NULL));
    idcwh_snapshot_free(view), idcwh_database_free(db);
}

static void null_handles(void) {
    idcwh_database* db = (idcwh_database*)codes;
    idcwh_snapshot* view = (idcwh_snapshot*)codes;
    idcwh_database_info info;
    idcwh_verification result;
    const idcwh_items items = items_of(1, NULL);
    INVALID("path|null", idcwh_database_open(NULL, 0, &db));
    CHECK(db == NULL);
    db = (idcwh_database*)codes;
    INVALID("bits|65535|found 0", idcwh_database_create(other_path, 0, NULL, 0, &db));
    CHECK(db == NULL);
    INVALID("path|null", idcwh_database_create(NULL, bits, NULL, 0, &db));
    INVALID("database|null", idcwh_database_open(path, 0, NULL));
    INVALID("database|null", idcwh_database_create(other_path, bits, NULL, 0, NULL));
    INVALID("database|null", idcwh_database_build(other_path, bits, NULL, 0, NULL));
    INVALID("bits|65536", idcwh_database_build(other_path, 65536, NULL, 0, &db));
    CHECK(db == NULL && access(other_path, F_OK) != 0);
    INVALID("database|null", idcwh_database_publish(NULL));
    INVALID("database|null", idcwh_database_snapshot(NULL, &view));
    CHECK(view == NULL);
    INVALID("database|null", idcwh_database_get_info(NULL, &info));
    INVALID("database|null", idcwh_database_refresh(NULL, NULL));
    INVALID("database|null", idcwh_database_add(NULL, &items, NULL));
    INVALID("database|null", idcwh_database_remove(NULL, ids, 1, NULL));
    INVALID("database|null", idcwh_database_remove_keys(NULL, keys, NULL, 1, NULL));
    INVALID("database|null", idcwh_database_replace(NULL, &items));
    INVALID("database|null", idcwh_database_update(NULL, ids, 1, &items, NULL));
    INVALID("database|null", idcwh_database_set_manifest(NULL, "{}"));
    INVALID("database|null", idcwh_database_compact(NULL));
    INVALID("database|null", idcwh_database_set_auto_compact(NULL, 1));
    INVALID("database|null", idcwh_database_check(NULL, 0, &result, NULL, 0, NULL));
    INVALID("snapshot|null", idcwh_snapshot_key(NULL, 0, NULL, 0, NULL));
    INVALID("snapshot|null", idcwh_snapshot_each(NULL, never, NULL));
    CHECK(idcwh_database_size(NULL) == 0 && idcwh_database_bits(NULL) == 0 && idcwh_database_writable(NULL) == 0);
    CHECK(idcwh_database_path(NULL) == NULL);
}

// A file of another kind is never replaced.
static void replaced(void) {
    static const char text[] = "important";
    char kept_text[sizeof text] = {0};
    idcwh_database* db = NULL;
    FILE* file = fopen(other_path, "wb");
    CHECK(file && fwrite(text, 1, sizeof text, file) == sizeof text && fclose(file) == 0);
    REFUSED(IDCWH_CORRUPT, "other.bin|already exists|remove it", idcwh_database_create(other_path, bits, NULL, 1, &db));
    REFUSED(IDCWH_CORRUPT, "other.bin|already exists", idcwh_database_build(other_path, bits, NULL, 1, &db));
    file = fopen(other_path, "rb");
    CHECK(file && fread(kept_text, 1, sizeof text, file) == sizeof text && fclose(file) == 0);
    CHECK(memcmp(kept_text, text, sizeof text) == 0);
    CHECK(truncate(other_path, 0) == 0);
    for (int i = 0; i < 2; ++i) {  // an empty file, then a database
        CHECK(idcwh_database_create(other_path, bits, NULL, 1, &db) == IDCWH_OK);
        idcwh_database_free(db);
    }
    unlink(other_path);
}

// Functions for databases fail on the snapshot of an index without a crash.
static void snapshot_of_an_index(void) {
    idcwh_index* index = NULL;
    idcwh_snapshot* view = NULL;
    char text[9];
    uint32_t mtime_signature;
    uint64_t commit;
    const uint8_t* place;
    CHECK(idcwh_index_create(bits, &index) == IDCWH_OK && idcwh_index_add(index, codes, 2, NULL, NULL) == IDCWH_OK);
    CHECK(idcwh_index_snapshot(index, &view) == IDCWH_OK);
    REFUSED(IDCWH_UNSUPPORTED, "index|database", idcwh_snapshot_key(view, 0, text, sizeof text, NULL));
    REFUSED(IDCWH_UNSUPPORTED, "database", idcwh_snapshot_label(view, 0, text, sizeof text, NULL));
    REFUSED(IDCWH_UNSUPPORTED, "database", idcwh_snapshot_mtime_signature(view, 0, &mtime_signature));
    REFUSED(IDCWH_UNSUPPORTED, "database", idcwh_snapshot_manifest(view, text, sizeof text, NULL));
    REFUSED(IDCWH_UNSUPPORTED, "database", idcwh_snapshot_commit(view, &commit));
    REFUSED(IDCWH_UNSUPPORTED, "database", idcwh_snapshot_find(view, keys, NULL, 1, ids, 8, &kept));
    REFUSED(IDCWH_UNSUPPORTED, "database", idcwh_snapshot_each(view, never, NULL));
    REFUSED(IDCWH_UNSUPPORTED, "database", idcwh_snapshot_codes_in_place(view, &place));
    idcwh_snapshot_free(view), idcwh_index_free(index);
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/codes.bin", folder);
    snprintf(other_path, sizeof other_path, "%s/other.bin", folder);
    bad_changes();
    bad_views();
    null_handles();
    replaced();
    snapshot_of_an_index();
    unlink(path);
    CHECK(rmdir(folder) == 0);  // fails if a temporary file is left
    if (failures) printf("%d checks failed\n", failures);
    return failures ? 1 : 0;
}
