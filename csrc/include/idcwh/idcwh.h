// The C API of the search library, for programs in C and for languages that can call C.
//
// It mirrors search.hpp, index.hpp, join.hpp, threads.hpp and isa.hpp. Those headers and docs/cpp.md describe each
// function in more detail. This header includes idcwh_database.h, which mirrors database.hpp.
//
// Codes: a code of b bits has (b + 7) / 8 bytes. Rows follow one another without gaps. Bit i is in byte i / 8 at
// position i % 8, least significant first. The padding bits of the last byte are zero.
//
// Results: ordered by (distance, id), ascending.
//
// Errors: a function that returns int returns IDCWH_OK or one of the error codes below. After an error,
// idcwh_last_error() returns the message on the same thread. The outputs of a failed call are unspecified, except that
// handles are null. No exception leaves a function. The library never aborts and never prints.
//
// Memory: the caller owns every buffer, and the library keeps no pointer to it. A handle that a function creates
// belongs to the caller, who passes it to the ..._free function of its type. These functions accept null. A handle must
// not be freed while another thread uses it.
//
// Options: a null pointer means a structure of zeros, and zeros mean the defaults.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "export.hpp"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    IDCWH_OK = 0,
    IDCWH_INVALID_ARGUMENT = 1,  // an invalid pointer, size, range or value
    IDCWH_UNSUPPORTED = 2,       // a valid request that this machine or build does not support
    IDCWH_NOT_FOUND = 3,         // an id or key that is missing
    IDCWH_INTERRUPTED = 4,       // a search that the caller's interrupt ended
    IDCWH_SYSTEM = 5,            // a file operation that failed; see idcwh_last_errno()
    IDCWH_CORRUPT = 6,           // a corrupt file; the message contains the position
    IDCWH_LOCKED = 7,            // a database that another handle or process has open for writing
    IDCWH_OUT_OF_MEMORY = 100,
    IDCWH_FAILED = 101,  // any other error of the standard library, such as a thread that cannot be created
};

// Returns the message of the last call that failed on this thread, or "" if none has. Valid until the next failure on
// this thread.
IDCWH_API const char* idcwh_last_error(void);

// Returns the file, folder or argument that caused the last error, or "".
IDCWH_API const char* idcwh_last_error_path(void);

// Returns the errno of the last error if it is IDCWH_SYSTEM, else 0.
IDCWH_API int idcwh_last_errno(void);

// Returns the version of the linked library, such as "0.1.0". version.hpp has the version of the headers.
IDCWH_API const char* idcwh_version(void);

// Returns the active instruction set, such as "avx2", as a constant string. Returns null, with a message, if the
// environment variable IDCWH_ISA names one that is unknown or that this machine does not support.
IDCWH_API const char* idcwh_isa(void);

// Activates an instruction set for all later searches. "auto" selects the fastest supported one.
// Returns IDCWH_INVALID_ARGUMENT for an unknown name, IDCWH_UNSUPPORTED for one that this machine does not support.
IDCWH_API int idcwh_isa_force(const char* name);

// Returns nonzero to end the search with IDCWH_INTERRUPTED. Called every few milliseconds of a long search, on the
// thread that started it.
typedef int (*idcwh_interrupt)(void* context);

// Results whose number varies per query. The results of query i are at [limits[i], limits[i + 1]). The arrays are valid
// until idcwh_hits_free().
typedef struct idcwh_hits idcwh_hits;
IDCWH_API size_t idcwh_hits_queries(const idcwh_hits* hits);
IDCWH_API const int64_t* idcwh_hits_limits(const idcwh_hits* hits);  // [queries + 1]
IDCWH_API const int32_t* idcwh_hits_distances(const idcwh_hits* hits);
IDCWH_API const int64_t* idcwh_hits_ids(const idcwh_hits* hits);
IDCWH_API void idcwh_hits_free(idcwh_hits* hits);

// ---- Codes in the caller's memory ----
//
// Any number of threads may search at once, as long as no thread changes the memory that is read.

typedef struct idcwh_codes {
    const uint8_t* data;  // size rows of (bits + 7) / 8 bytes, at any address
    size_t size;
    unsigned bits;  // 1 to 65535
} idcwh_codes;

// The rows that a search may return: a view of the caller's memory.
enum {
    IDCWH_ROWS_ALL = 0,
    IDCWH_ROWS_RANGE = 1,   // rows [begin, end), begin <= end; an end above size means size
    IDCWH_ROWS_LIST = 2,    // the `count` rows of list: ascending, unique, all below size
    IDCWH_ROWS_BITMAP = 3,  // row r if bit r % 64 of bitmap[r / 64] is set, lowest first
    IDCWH_ROWS_BYTES = 4,   // row r if bytes[r] is nonzero
};
typedef struct idcwh_rows {
    int kind;  // IDCWH_ROWS_...; the other kinds' fields are ignored
    size_t begin, end;
    const int64_t* list;
    size_t count;
    const uint64_t* bitmap;
    const uint8_t* bytes;
} idcwh_rows;

typedef struct idcwh_search_options {
    const int64_t* ids;  // [size], unique, in any order; null: the id of a row is its row number
    idcwh_rows rows;
    unsigned threads;           // at most 1024; 0: idcwh_threads()
    idcwh_interrupt interrupt;  // null: none
    void* interrupt_context;    // passed to it
} idcwh_search_options;

// Writes the number of rows that a search may return.
IDCWH_API int idcwh_eligible(const idcwh_codes* codes, const idcwh_search_options* options, size_t* count);

// Writes the k nearest rows of each of nq queries. `kept`, which may be null, receives min(k, eligible). distances and
// ids are arrays [nq][kept].
IDCWH_API int idcwh_topk(const idcwh_codes* codes, const uint8_t* queries, size_t nq, size_t k,
                         const idcwh_search_options* options, int32_t* distances, int64_t* ids, size_t* kept);

// Finds the k nearest rows, and every other row at the distance of the k-th.
IDCWH_API int idcwh_topk_ties(const idcwh_codes* codes, const uint8_t* queries, size_t nq, size_t k,
                              const idcwh_search_options* options, idcwh_hits** hits);

// Finds every row at a distance of at most `radius`.
IDCWH_API int idcwh_radius(const idcwh_codes* codes, const uint8_t* queries, size_t nq, unsigned radius,
                           const idcwh_search_options* options, idcwh_hits** hits);

// Counts the rows at a distance of at most `radius`: counts[nq].
IDCWH_API int idcwh_count(const idcwh_codes* codes, const uint8_t* queries, size_t nq, unsigned radius,
                          const idcwh_search_options* options, int64_t* counts);

// Counts the rows at each distance: counts[nq][bits + 1].
IDCWH_API int idcwh_histogram(const idcwh_codes* codes, const uint8_t* queries, size_t nq,
                              const idcwh_search_options* options, int64_t* counts);

// Writes every eligible row, nearest first. distances and ids are arrays [nq][eligible]. `kept`, which may be null,
// receives the number of eligible rows.
IDCWH_API int idcwh_rank(const idcwh_codes* codes, const uint8_t* queries, size_t nq,
                         const idcwh_search_options* options, int32_t* distances, int64_t* ids, size_t* kept);

// Writes 1 if the padding bits of every row are zero, as they must be, else 0. Searches of memory check those of the
// queries, idcwh_histogram and idcwh_rank also those of the codes. Indexes, databases and joins check all codes.
IDCWH_API int idcwh_padding_is_zero(const idcwh_codes* codes, int* result);

// ---- Threads ----

// Sets the default number of threads, at most 1024, for searches that do not set one. 0 restores the initial default:
// the environment variable IDCWH_THREADS, else the cores that the process may use.
IDCWH_API int idcwh_set_threads(unsigned threads);
IDCWH_API unsigned idcwh_threads(void);

// Calls body(work, 0) .. body(work, tasks - 1), each once, and returns when all have finished. It uses up to `threads`
// threads; the calling thread may be one of them. Several threads may call an executor at the same time. It must not
// throw or longjmp.
typedef void (*idcwh_body)(void* work, size_t task);
typedef void (*idcwh_executor)(void* context, size_t tasks, unsigned threads, idcwh_body body, void* work);

// Runs the searches on the caller's threads. A null executor restores the library's own threads.
IDCWH_API int idcwh_set_executor(idcwh_executor executor, void* context);

// ---- Index: codes with ids, in memory ----
//
// Any number of threads may search snapshots, and they never wait for a writer. Writers wait for one another. An error
// leaves the index unchanged.

typedef struct idcwh_index idcwh_index;
typedef struct idcwh_snapshot idcwh_snapshot;

IDCWH_API int idcwh_index_create(unsigned bits, idcwh_index** index);
IDCWH_API void idcwh_index_free(idcwh_index* index);  // its snapshots remain valid
IDCWH_API unsigned idcwh_index_bits(const idcwh_index* index);
IDCWH_API size_t idcwh_index_size(const idcwh_index* index);

// Adds n codes. The ids must be >= 0, unique and new. If `ids` is null, they continue from the largest id ever used.
// `assigned`, which may be null, receives the n ids.
IDCWH_API int idcwh_index_add(idcwh_index* index, const uint8_t* codes, size_t n, const int64_t* ids,
                              int64_t* assigned);

// Removes the codes with these ids. `removed`, which may be null, receives their number; repeated ids count once.
// Returns IDCWH_NOT_FOUND and removes nothing if an id is missing. The message contains the first missing id.
IDCWH_API int idcwh_index_remove(idcwh_index* index, const int64_t* ids, size_t count, size_t* removed);

// Allocates memory for `size` codes in total.
IDCWH_API int idcwh_index_reserve(idcwh_index* index, size_t size);

typedef struct idcwh_optimize_options {
    size_t memory;     // limit in bytes, besides codes and ids; 0: 128 bytes per code plus 1 MiB
    unsigned threads;  // 0: idcwh_threads()
    idcwh_interrupt interrupt;
    void* interrupt_context;
} idcwh_optimize_options;

// Builds structures that make searches faster, and replaces earlier ones. Results do not change.
IDCWH_API int idcwh_index_optimize(idcwh_index* index, const idcwh_optimize_options* options);
// Frees these structures.
IDCWH_API int idcwh_index_drop_structures(idcwh_index* index);

// Sets the default number of threads for searches of this index. 0: idcwh_threads().
IDCWH_API int idcwh_index_set_threads(idcwh_index* index, unsigned threads);

// Creates a snapshot: the current content of the index, which no later change affects. No codes are copied. A snapshot
// may outlive the index.
IDCWH_API int idcwh_index_snapshot(const idcwh_index* index, idcwh_snapshot** snapshot);
IDCWH_API void idcwh_snapshot_free(idcwh_snapshot* snapshot);
IDCWH_API unsigned idcwh_snapshot_bits(const idcwh_snapshot* snapshot);
IDCWH_API size_t idcwh_snapshot_size(const idcwh_snapshot* snapshot);

// The codes that a search may return, by id or by position: a view of the caller's memory. Position i is the i-th code
// in the order in which the codes were added.
enum {
    IDCWH_WHERE_ALL = 0,
    IDCWH_WHERE_IDS = 1,       // the `count` ids of ids, in any order; missing ids select nothing
    IDCWH_WHERE_ID_RANGE = 2,  // ids in [first, last)
    IDCWH_WHERE_BYTES = 3,     // position i if bytes[i] is nonzero; `count` is the snapshot's size
    IDCWH_WHERE_BITMAP = 4,    // position i if bit i % 64 of bitmap[i / 64] is set; `count` is the snapshot's size
};
typedef struct idcwh_where {
    int kind;  // IDCWH_WHERE_...; the other kinds' fields are ignored
    const int64_t* ids;
    size_t count;
    int64_t first, last;
    const uint8_t* bytes;
    const uint64_t* bitmap;
} idcwh_where;

typedef struct idcwh_query_options {
    idcwh_where where;
    unsigned threads;  // 0: the default of the index
    idcwh_interrupt interrupt;
    void* interrupt_context;
    // Ids that a query must not return, such as its own: [nq][exclude_count]. Repeats and missing ids, such as -1, are
    // allowed. If they leave fewer codes to a query than topk or rank write, its results end with the id -1 at the
    // distance INT32_MAX.
    const int64_t* exclude;
    size_t exclude_count;  // per query
} idcwh_query_options;

// Search a snapshot, like the functions of the same name without _snapshot.
IDCWH_API int idcwh_snapshot_eligible(const idcwh_snapshot* snapshot, const idcwh_where* where, size_t* count);
IDCWH_API int idcwh_snapshot_topk(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq, size_t k,
                                  const idcwh_query_options* options, int32_t* distances, int64_t* ids, size_t* kept);
IDCWH_API int idcwh_snapshot_topk_ties(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq, size_t k,
                                       const idcwh_query_options* options, idcwh_hits** hits);
IDCWH_API int idcwh_snapshot_radius(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq, unsigned radius,
                                    const idcwh_query_options* options, idcwh_hits** hits);
IDCWH_API int idcwh_snapshot_count(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq, unsigned radius,
                                   const idcwh_query_options* options, int64_t* counts);
IDCWH_API int idcwh_snapshot_histogram(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq,
                                       const idcwh_query_options* options, int64_t* counts);
IDCWH_API int idcwh_snapshot_rank(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq,
                                  const idcwh_query_options* options, int32_t* distances, int64_t* ids, size_t* kept);

// Writes 1 if the snapshot contains the id, else 0.
IDCWH_API int idcwh_snapshot_contains(const idcwh_snapshot* snapshot, int64_t id, int* found);

// Copies the codes of these ids to `out`, one row per id. Returns IDCWH_NOT_FOUND if an id is missing. The message
// contains the first missing id.
IDCWH_API int idcwh_snapshot_get(const idcwh_snapshot* snapshot, const int64_t* ids, size_t count, uint8_t* out);

// Copies all codes and all ids, in the order in which they were added. Either pointer may be null.
IDCWH_API int idcwh_snapshot_copy(const idcwh_snapshot* snapshot, uint8_t* codes, int64_t* ids);

// Writes the memory of codes, ids and structures in bytes, including spare capacity.
IDCWH_API int idcwh_snapshot_memory(const idcwh_snapshot* snapshot, size_t* bytes);

// Write a text that describes how a search would run, and why. For a search with exclude_count ids per query, k is as
// much larger. The buffer `text` receives at most capacity - 1 characters and a terminating zero. `length`, which may
// be null, receives the length of the whole text without that zero. If capacity is 0, `text` may be null.
IDCWH_API int idcwh_snapshot_explain_topk(const idcwh_snapshot* snapshot, size_t k, size_t nq, const idcwh_where* where,
                                          char* text, size_t capacity, size_t* length);
IDCWH_API int idcwh_snapshot_explain_radius(const idcwh_snapshot* snapshot, unsigned radius, size_t nq,
                                            const idcwh_where* where, char* text, size_t capacity, size_t* length);
// Writes one line per structure that idcwh_index_optimize has built: name, codes, bytes and parameters.
IDCWH_API int idcwh_snapshot_structures(const idcwh_snapshot* snapshot, char* text, size_t capacity, size_t* length);

// ---- Joins: all pairs of codes within a radius ----
//
// Each pair comes exactly once. The order is a function of the codes and the radius. It does not depend on the number
// of threads or the instruction set. join.hpp states the memory of a join.

typedef struct idcwh_join_options {
    unsigned threads;           // at most 1024; 0: idcwh_threads()
    uint64_t max_pairs;         // more pairs are an error of idcwh_pairs_next; 0: any number
    idcwh_interrupt interrupt;  // null: none. Called by the functions below and by idcwh_pairs_next
    void* interrupt_context;
} idcwh_join_options;

// A stream of pairs. One thread at a time may use it.
typedef struct idcwh_pairs idcwh_pairs;

// Starts a join of a row of `a` (first) and a row of `b` (second), which have the same number of bits. If `b` is null,
// the pairs are those of rows first < second of `a`. The codes are not read later. There must be fewer than 2^32 of
// them. Returns IDCWH_INVALID_ARGUMENT for a radius above the bits.
IDCWH_API int idcwh_join(const idcwh_codes* a, const idcwh_codes* b, unsigned radius, const idcwh_join_options* options,
                         idcwh_pairs** pairs);

// Starts a join of the items of snapshots. The pairs are ids: first < second if `b` is null. `where`, which may be
// null, selects the items of `a`. The snapshots are not read later.
IDCWH_API int idcwh_snapshot_join(const idcwh_snapshot* a, const idcwh_snapshot* b, unsigned radius,
                                  const idcwh_where* where, const idcwh_join_options* options, idcwh_pairs** pairs);

// Writes the next pairs to arrays [capacity] and their number to `count`, which is less than capacity only at the end.
// Returns IDCWH_INVALID_ARGUMENT if there are more than max_pairs pairs. The message contains their number. After an
// error, each later call fails in the same way.
IDCWH_API int idcwh_pairs_next(idcwh_pairs* pairs, size_t capacity, int64_t* first, int64_t* second, int32_t* distances,
                               size_t* count);
// Writes a text that describes how the pairs are found. text, capacity and length are as in
// idcwh_snapshot_explain_topk.
IDCWH_API int idcwh_pairs_explain(const idcwh_pairs* pairs, char* text, size_t capacity, size_t* length);
IDCWH_API void idcwh_pairs_free(idcwh_pairs* pairs);

// Write the number of pairs of a join. They ignore max_pairs.
IDCWH_API int idcwh_count_pairs(const idcwh_codes* a, const idcwh_codes* b, unsigned radius,
                                const idcwh_join_options* options, uint64_t* count);
IDCWH_API int idcwh_snapshot_count_pairs(const idcwh_snapshot* a, const idcwh_snapshot* b, unsigned radius,
                                         const idcwh_where* where, const idcwh_join_options* options, uint64_t* count);

enum {
    IDCWH_CLUSTERS_COMPONENTS = 0,  // a chain of pairs within the radius joins two codes
    IDCWH_CLUSTERS_GREEDY = 1,  // in ascending order, a code joins the first keeper within the radius, or becomes one
};

// Writes the cluster of each row, clusters[codes->size], numbered from 0 in the order of their first rows. `count`,
// which may be null, receives the number of clusters.
IDCWH_API int idcwh_cluster(const idcwh_codes* codes, unsigned radius, int mode, const idcwh_join_options* options,
                            int64_t* clusters, size_t* count);
// Writes the ids of the items that `where` selects, in the order in which they were added, and their clusters. Both are
// arrays of as many elements as idcwh_snapshot_eligible() returns.
IDCWH_API int idcwh_snapshot_cluster(const idcwh_snapshot* snapshot, unsigned radius, int mode,
                                     const idcwh_where* where, const idcwh_join_options* options, int64_t* ids,
                                     int64_t* clusters, size_t* count);

#ifdef __cplusplus
}
#endif

#include "idcwh_database.h"
