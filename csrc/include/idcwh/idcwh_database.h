// The C API of databases: codes with ids, keys and labels in one crash-safe file, codes.bin, which is memory-mapped.
// Part of idcwh.h, whose conventions apply here. database.hpp describes each function in more detail.
//
// Durability: a change is on the disk when its function returns IDCWH_OK. After a crash the file contains every change
// that had returned. A change that had not returned is contained completely or not at all. An error leaves the database
// unchanged.
//
// Threads and processes: one handle at a time has a file open for writing, any number for reading, in any processes.
// Any number of threads may take and search snapshots while another thread changes or refreshes the handle. Changes
// wait for one another.
#pragma once

#include "idcwh.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct idcwh_database idcwh_database;

// Items to add: a view of the caller's memory. Texts are arbitrary bytes, by pointer and length. If the lengths are
// null, texts end with a zero byte.
typedef struct idcwh_items {
    const uint8_t* codes;  // size rows of (bits + 7) / 8 bytes
    size_t size;
    const int64_t* ids;           // [size], >= 0, unique; null: they continue from the largest id ever used
    const char* const* keys;      // [size], such as paths of images; null or empty: the item has no key. Null: no keys
    const size_t* key_lengths;    // [size] or null
    const char* const* labels;    // [size]; null: the item has no label. Null: no labels
    const size_t* label_lengths;  // [size] or null
    const uint32_t* mtime_signatures;  // [size], tell a changed file from an unchanged one. Null: all 0
} idcwh_items;

// Opens the file at `path` for reading, or for writing if `write` is nonzero. Errors:
//     IDCWH_LOCKED       another handle has the file open for writing
//     IDCWH_CORRUPT      the file is corrupt or no database
//     IDCWH_UNSUPPORTED  the file has a later format version
//     IDCWH_SYSTEM       the file cannot be opened; see idcwh_last_errno()
IDCWH_API int idcwh_database_open(const char* path, int write, idcwh_database** database);

// Creates a database without items, open for writing. If `replace` is nonzero, it replaces a codes.bin or an empty file
// and keeps its permissions. Returns IDCWH_CORRUPT if `path` is any other file. `manifest` is JSON text that ends with
// a zero byte; null means "{}".
IDCWH_API int idcwh_database_create(const char* path, unsigned bits, const char* manifest, int replace,
                                    idcwh_database** database);

// Creates a database in the same way, but with a hidden name until idcwh_database_publish(). Changes are not synced
// until then, so this is the fastest way to write many items. If the handle is freed before, or after a crash, no file
// remains.
IDCWH_API int idcwh_database_build(const char* path, unsigned bits, const char* manifest, int replace,
                                   idcwh_database** database);

// Compacts and syncs the file and moves it to its path. Each later change is durable when it returns. Returns an error
// and discards the database if there is a file at the path that it may not replace.
IDCWH_API int idcwh_database_publish(idcwh_database* database);

// Closes the database. Its snapshots remain valid.
IDCWH_API void idcwh_database_free(idcwh_database* database);
IDCWH_API const char* idcwh_database_path(const idcwh_database* database);  // as given; valid as long as the handle
IDCWH_API unsigned idcwh_database_bits(const idcwh_database* database);
IDCWH_API size_t idcwh_database_size(const idcwh_database* database);
IDCWH_API int idcwh_database_writable(const idcwh_database* database);  // 1 or 0

typedef struct idcwh_database_info {
    size_t items;    // number of items
    size_t removed;  // removed items whose rows are still in the file
    size_t segments;
    uint64_t bytes;   // size of the file
    uint64_t unused;  // bytes that compacting would free
    uint64_t commit;  // number of the last commit, which grows with every change
    uint64_t next_id;
} idcwh_database_info;
IDCWH_API int idcwh_database_get_info(const idcwh_database* database, idcwh_database_info* info);

// Reads the changes of other processes, or the file that has replaced this one. `changed`, which may be null, receives
// 1 if there were any, else 0.
IDCWH_API int idcwh_database_refresh(idcwh_database* database, int* changed);

// ---- Changes (the database is open for writing) ----

// Adds items with new ids. `assigned`, which may be null, receives the ids.
IDCWH_API int idcwh_database_add(idcwh_database* database, const idcwh_items* items, int64_t* assigned);

// Removes items by id. `removed`, which may be null, receives their number; repeated ids count once. Returns
// IDCWH_NOT_FOUND and removes nothing if an id is missing. The message contains the first missing id.
IDCWH_API int idcwh_database_remove(idcwh_database* database, const int64_t* ids, size_t count, size_t* removed);

// Removes every item with one of these keys. Returns IDCWH_NOT_FOUND and removes nothing if a key is missing. The
// message contains the first missing key.
IDCWH_API int idcwh_database_remove_keys(idcwh_database* database, const char* const* keys, const size_t* key_lengths,
                                         size_t count, size_t* removed);

// Replaces the items with these ids. Returns IDCWH_NOT_FOUND and changes nothing if an id is missing.
IDCWH_API int idcwh_database_replace(idcwh_database* database, const idcwh_items* items);

// Removes items by id and adds others in one change. After a crash the file contains both changes or neither.
IDCWH_API int idcwh_database_update(idcwh_database* database, const int64_t* removed, size_t removed_count,
                                    const idcwh_items* items, int64_t* assigned);

// Replaces the manifest with this JSON object.
IDCWH_API int idcwh_database_set_manifest(idcwh_database* database, const char* json);

// Writes the current items to a new file, which replaces the old one.
IDCWH_API int idcwh_database_compact(idcwh_database* database);

// Turns automatic compaction on (the default) or off. It runs after a change that leaves more than half of the file,
// and more than 16 MiB, unused.
IDCWH_API int idcwh_database_set_auto_compact(idcwh_database* database, int on);

// Builds structures like idcwh_index_optimize, over the segments of the file. The handle may be open for reading. The
// structures are in memory and belong to this handle. Later items are scanned until there are enough to extend the
// structures, within the same memory limit.
IDCWH_API int idcwh_database_optimize(idcwh_database* database, const idcwh_optimize_options* options);
IDCWH_API int idcwh_database_drop_structures(idcwh_database* database);

// ---- Integrity check ----

typedef struct idcwh_verification {
    size_t corrupt_ranges;  // number of corrupt ranges
    size_t items;           // number of items according to the last commit
    size_t good_items;      // items in segments without a corrupt range
    uint64_t torn;          // bytes after the last commit, of an unfinished change; the next writer removes them
} idcwh_verification;

// Reads the whole file and writes every corrupt range. Returns IDCWH_OK even if the file is corrupt. `text` receives
// one line per range, "byte OFFSET, LENGTH bytes: WHAT". text, capacity and length are as in
// idcwh_snapshot_explain_topk. If threads is 0, idcwh_threads() applies.
IDCWH_API int idcwh_database_check(const idcwh_database* database, unsigned threads, idcwh_verification* result,
                                   char* text, size_t capacity, size_t* length);

// Deprecated name of idcwh_database_check.
IDCWH_API int idcwh_database_verify(const idcwh_database* database, unsigned threads, idcwh_verification* result,
                                    char* text, size_t capacity, size_t* length);

// ---- Snapshots ----

// Creates a snapshot: the current content of the database. Every idcwh_snapshot_... function accepts it.
IDCWH_API int idcwh_database_snapshot(const idcwh_database* database, idcwh_snapshot** snapshot);

// The length of a missing key or label.
#define IDCWH_NONE ((size_t)-1)

// The functions below require a snapshot of a database. For a snapshot of an index they return IDCWH_UNSUPPORTED.

// Write the key or the label of an item: at most capacity - 1 bytes and a terminating zero. `length`, which may be
// null, receives the length of the whole text without that zero, or IDCWH_NONE. If capacity is 0, `text` may be null.
IDCWH_API int idcwh_snapshot_key(const idcwh_snapshot* snapshot, int64_t id, char* text, size_t capacity,
                                 size_t* length);
IDCWH_API int idcwh_snapshot_label(const idcwh_snapshot* snapshot, int64_t id, char* text, size_t capacity,
                                   size_t* length);
IDCWH_API int idcwh_snapshot_mtime_signature(const idcwh_snapshot* snapshot, int64_t id, uint32_t* mtime_signature);

IDCWH_API int idcwh_snapshot_manifest(const idcwh_snapshot* snapshot, char* text, size_t capacity, size_t* length);
IDCWH_API int idcwh_snapshot_commit(const idcwh_snapshot* snapshot, uint64_t* commit);

// Finds the items with one of these keys. `ids` receives the first `capacity` of their ids, ascending. `found` receives
// the number of these items. If capacity is 0, `ids` may be null.
IDCWH_API int idcwh_snapshot_find(const idcwh_snapshot* snapshot, const char* const* keys, const size_t* key_lengths,
                                  size_t count, int64_t* ids, size_t capacity, size_t* found);

// An item of a snapshot. Its key and label have no terminating zero and are valid as long as the snapshot. A null
// pointer means no key or no label.
typedef struct idcwh_item {
    int64_t id;
    const char* key;
    size_t key_length;
    const char* label;
    size_t label_length;
    uint32_t mtime_signature;
} idcwh_item;
typedef int (*idcwh_each_item)(void* context, const idcwh_item* item);

// Calls function(context, item) for every item, in the order of rows. A nonzero result ends the loop with
// IDCWH_INTERRUPTED.
IDCWH_API int idcwh_snapshot_each(const idcwh_snapshot* snapshot, idcwh_each_item function, void* context);

// Writes a pointer to all codes in the mapped file, valid as long as the snapshot. Writes null if the codes are not
// contiguous: there are several segments, or removed items.
IDCWH_API int idcwh_snapshot_codes_in_place(const idcwh_snapshot* snapshot, const uint8_t** codes);

#ifdef __cplusplus
}
#endif
