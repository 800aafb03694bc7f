// Databases from C: codes with ids, keys and labels in one file, codes.bin, that loses nothing; searched where they
// lie. Part of idcwh.h, whose conventions hold here; database.hpp says more.
//
// A write has reached the disk when its function returns IDCWH_OK; after a crash at any moment the file holds what was
// acknowledged, and nothing of what was not, or all of it. After an error the database is as it was.
//
// One handle writes to a file at a time, any number read, in any processes. Snapshots may be taken and searched by any
// number of threads while one changes or refreshes the handle; changes take turns.
#pragma once

#include "idcwh.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct idcwh_database idcwh_database;

// Items to add. Texts are any bytes, given by pointer and length, or with an end where the lengths are null.
typedef struct idcwh_items {
    const uint8_t* codes;  // size rows of (bits + 7) / 8 bytes
    size_t size;
    const int64_t* ids;         // [size] >= 0, none twice; null: they go on from the largest ever used
    const char* const* keys;    // [size] the path of an image, say; one that is null or empty is none. Null: no keys
    const size_t* key_lengths;  // [size] or null
    const char* const* labels;  // [size] one that is null is none. Null: no labels
    const size_t* label_lengths;
    const uint32_t* mtime_signatures;  // [size] what says whether the thing behind the key has changed. Null: all 0
} idcwh_items;

// Opens the file at path, for reading, or for writing where write is not 0. IDCWH_LOCKED: somebody else is writing.
// IDCWH_CORRUPT: it is no database, or corrupt. IDCWH_UNSUPPORTED: a later format version. IDCWH_SYSTEM: as
// idcwh_last_errno says.
IDCWH_API int idcwh_database_open(const char* path, int write, idcwh_database** database);

// A new database without items, open for writing. Where replace is not 0 it takes the place, and the permissions, of a
// codes.bin or of an empty file; another file is IDCWH_CORRUPT. manifest: JSON with an end; null: "{}".
IDCWH_API int idcwh_database_create(const char* path, unsigned bits, const char* manifest, int replace,
                                    idcwh_database** database);

// The same, but the file has a hidden name until idcwh_database_publish, and changes are not synced before, which is
// faster: the way to write many items. Without publishing, and after a crash, nothing is left.
IDCWH_API int idcwh_database_build(const char* path, unsigned bits, const char* manifest, int replace,
                                   idcwh_database** database);

// Gives it its path, compact and synced; later changes are durable one by one. IDCWH_SYSTEM when another file is at the
// path meanwhile, unless it may be replaced; then the database is discarded.
IDCWH_API int idcwh_database_publish(idcwh_database* database);

// Closes it; snapshots that were taken stay as they are.
IDCWH_API void idcwh_database_free(idcwh_database* database);
IDCWH_API const char* idcwh_database_path(const idcwh_database* database);  // as it was opened; lives with the handle
IDCWH_API unsigned idcwh_database_bits(const idcwh_database* database);
IDCWH_API size_t idcwh_database_size(const idcwh_database* database);
IDCWH_API int idcwh_database_writable(const idcwh_database* database);  // 1 or 0

typedef struct idcwh_database_info {
    size_t items;    // that are there
    size_t removed;  // whose rows are still in the file
    size_t segments;
    uint64_t bytes;   // of the file
    uint64_t unused;  // of these, what compacting would give back
    uint64_t commit;  // its number: grows with every change
    uint64_t next_id;
} idcwh_database_info;
IDCWH_API int idcwh_database_get_info(const idcwh_database* database, idcwh_database_info* info);

// Takes up what other processes have written, or put in the place of the file, since. changed (may be null) becomes 1
// when there was something, else 0.
IDCWH_API int idcwh_database_refresh(idcwh_database* database, int* changed);

// ---- Changes: of a database that is open for writing ----------------------------------------------------------------

// Adds items whose ids are new. assigned, where it is not null, receives their ids.
IDCWH_API int idcwh_database_add(idcwh_database* database, const idcwh_items* items, int64_t* assigned);

// Removes items by id; removed (may be null) becomes their number, an id given twice counted once. IDCWH_NOT_FOUND
// names the first that is not there, and then nothing is removed.
IDCWH_API int idcwh_database_remove(idcwh_database* database, const int64_t* ids, size_t count, size_t* removed);

// Removes every item with one of these keys. IDCWH_NOT_FOUND names the first that no item has.
IDCWH_API int idcwh_database_remove_keys(idcwh_database* database, const char* const* keys, const size_t* key_lengths,
                                         size_t count, size_t* removed);

// Replaces the items with these ids, all of which are there.
IDCWH_API int idcwh_database_replace(idcwh_database* database, const idcwh_items* items);

// Removes some, then adds others, in one step: a crash leaves both or neither.
IDCWH_API int idcwh_database_update(idcwh_database* database, const int64_t* removed, size_t removed_count,
                                    const idcwh_items* items, int64_t* assigned);

IDCWH_API int idcwh_database_set_manifest(idcwh_database* database, const char* json);

// Writes what is in force into a new file, which takes the place of the old one. It happens by itself when more than
// half of a file of some size is out of use, unless that is switched off (on: 0).
IDCWH_API int idcwh_database_compact(idcwh_database* database);
IDCWH_API int idcwh_database_set_auto_compact(idcwh_database* database, int on);

// As idcwh_index_optimize, over the segments of the file: built in memory, for this handle, open for reading or
// writing. What is added or taken up later is scanned until it is much, then it is covered as well, within the same
// memory.
IDCWH_API int idcwh_database_optimize(idcwh_database* database, const idcwh_optimize_options* options);
IDCWH_API int idcwh_database_drop_structures(idcwh_database* database);

// ---- Checking -------------------------------------------------------------------------------------------------------

typedef struct idcwh_verification {
    size_t corrupt_ranges;  // of the file
    size_t items;           // that the file should hold
    size_t good_items;      // of these, in segments without a corrupt range
    uint64_t torn;          // bytes behind the last commit, of a write that never ended; the next writer removes them
} idcwh_verification;

// Reads the whole file and reports every corrupt range: IDCWH_OK whatever it finds. text receives a line for each,
// "byte OFFSET, LENGTH bytes: WHAT", as idcwh_snapshot_explain_topk does. threads: 0 for as many as the process may
// use.
IDCWH_API int idcwh_database_check(const idcwh_database* database, unsigned threads, idcwh_verification* result,
                                   char* text, size_t capacity, size_t* length);

// Deprecated name of idcwh_database_check.
IDCWH_API int idcwh_database_verify(const idcwh_database* database, unsigned threads, idcwh_verification* result,
                                    char* text, size_t capacity, size_t* length);

// ---- Snapshots ------------------------------------------------------------------------------------------------------

// What the database holds at this moment; every idcwh_snapshot_... takes it.
IDCWH_API int idcwh_database_snapshot(const idcwh_database* database, idcwh_snapshot** snapshot);

// Of an item that has no key, or no label.
#define IDCWH_NONE ((size_t)-1)

// The functions below are for snapshots of a database: IDCWH_UNSUPPORTED for those of an index.

// The key and the label of an item: at most capacity - 1 bytes of it, and an end. length (may be null) becomes the
// length of the whole, the end not counted, or IDCWH_NONE; with capacity 0, text may be null.
IDCWH_API int idcwh_snapshot_key(const idcwh_snapshot* snapshot, int64_t id, char* text, size_t capacity,
                                 size_t* length);
IDCWH_API int idcwh_snapshot_label(const idcwh_snapshot* snapshot, int64_t id, char* text, size_t capacity,
                                   size_t* length);
IDCWH_API int idcwh_snapshot_mtime_signature(const idcwh_snapshot* snapshot, int64_t id, uint32_t* mtime_signature);

IDCWH_API int idcwh_snapshot_manifest(const idcwh_snapshot* snapshot, char* text, size_t capacity, size_t* length);
IDCWH_API int idcwh_snapshot_commit(const idcwh_snapshot* snapshot, uint64_t* commit);

// The ids of the items with one of these keys, ascending: the first `capacity` of them. found becomes their number;
// with capacity 0, ids may be null.
IDCWH_API int idcwh_snapshot_find(const idcwh_snapshot* snapshot, const char* const* keys, const size_t* key_lengths,
                                  size_t count, int64_t* ids, size_t capacity, size_t* found);

// Calls function(context, item) for every item, in the order of rows. Not zero ends it with IDCWH_INTERRUPTED. Texts
// have no end, and live as long as the snapshot; null: none.
typedef struct idcwh_item {
    int64_t id;
    const char* key;
    size_t key_length;
    const char* label;
    size_t label_length;
    uint32_t mtime_signature;
} idcwh_item;
typedef int (*idcwh_each_item)(void* context, const idcwh_item* item);
IDCWH_API int idcwh_snapshot_each(const idcwh_snapshot* snapshot, idcwh_each_item function, void* context);

// codes becomes where all codes lie in one piece of the file, as long as the snapshot lives, or null where they do not
// (several segments, or some removed).
IDCWH_API int idcwh_snapshot_codes_in_place(const idcwh_snapshot* snapshot, const uint8_t** codes);

#ifdef __cplusplus
}
#endif
