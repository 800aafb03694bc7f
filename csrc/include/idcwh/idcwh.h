// The engine from C, and from whatever can call C. Everything here is search.hpp, index.hpp, threads.hpp and isa.hpp
// under plain names; those headers, and docs/cpp.md, say more about each. idcwh_database.h, which comes with it, is
// database.hpp.
//
// Codes: b bits are (b + 7) / 8 bytes, rows lie one after the other, bit i is in byte i / 8 at position i % 8 (least
// significant first), and the padding bits of the last byte are zero. Results are ordered by (distance, id), ascending.
//
// Failure: a function that returns int returns IDCWH_OK or one of the codes below, and then idcwh_last_error() says, on
// the same thread, what was expected and what came. What a failed call would have written is unspecified, except that
// handles are set to null. No exception leaves a function, nothing aborts, nothing prints.
//
// Memory: the caller owns every buffer, before and after; none is kept. What a function returns through a pointer to a
// handle belongs to the caller and goes back through the ..._free of its type, which takes null too. A handle must not
// be freed while another thread uses it.
//
// Options: null stands for a structure of zeros, and zeros stand for the defaults.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "export.hpp"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    IDCWH_OK = 0,
    IDCWH_INVALID_ARGUMENT = 1,  // a pointer, size, range or value that cannot be
    IDCWH_UNSUPPORTED = 2,       // a valid wish that this machine or build cannot fulfil
    IDCWH_NOT_FOUND = 3,         // an id or key that is not there
    IDCWH_INTERRUPTED = 4,       // the caller's interrupt said so
    IDCWH_SYSTEM = 5,            // the system refused a file operation: idcwh_last_errno
    IDCWH_CORRUPT = 6,           // a file that is not what it should be: the message says where
    IDCWH_LOCKED = 7,            // somebody else is writing to the database
    IDCWH_OUT_OF_MEMORY = 100,
    IDCWH_FAILED = 101,  // what the standard library reports beyond that (a lock or a thread refused by the system)
};

// The message of the last call that failed on this thread, "" before the first; valid until the next failure on it.
IDCWH_API const char* idcwh_last_error(void);

// The file that the error of that call is about, or "".
IDCWH_API const char* idcwh_last_error_path(void);

// The errno of that call where it failed with IDCWH_SYSTEM, and else 0.
IDCWH_API int idcwh_last_errno(void);

// "0.1.0": the version of the library that is linked, which a program can compare with the header's (version.hpp).
IDCWH_API const char* idcwh_version(void);

// The instruction set that searches run on ("avx2", ...; a constant string). Null, with a message, when the environment
// variable IDCWH_ISA names one that is not there.
IDCWH_API const char* idcwh_isa(void);

// Makes another one active for the searches that start from now on; "auto": the best there is.
// IDCWH_INVALID_ARGUMENT: an unknown name. IDCWH_UNSUPPORTED: the machine lacks it.
IDCWH_API int idcwh_isa_force(const char* name);

// Asked every few milliseconds of a long search, on the thread that called; not zero ends the search with
// IDCWH_INTERRUPTED.
typedef int (*idcwh_interrupt)(void* context);

// Results of which each query has its own number: those of query i are at [limits[i], limits[i + 1]).
typedef struct idcwh_hits idcwh_hits;
IDCWH_API size_t idcwh_hits_queries(const idcwh_hits* hits);
IDCWH_API const int64_t* idcwh_hits_limits(const idcwh_hits* hits);  // [queries + 1]; as long as the handle lives
IDCWH_API const int32_t* idcwh_hits_distances(const idcwh_hits* hits);
IDCWH_API const int64_t* idcwh_hits_ids(const idcwh_hits* hits);
IDCWH_API void idcwh_hits_free(idcwh_hits* hits);

// ---- Codes in the caller's memory -----------------------------------------------------------------------------------
//
// Any number of threads may search at once, as long as nobody changes the memory that is read.

typedef struct idcwh_codes {
    const uint8_t* data;  // size rows of (bits + 7) / 8 bytes, at any address
    size_t size;
    unsigned bits;  // 1 to 65535
} idcwh_codes;

// Which rows a search may return.
enum {
    IDCWH_ROWS_ALL = 0,
    IDCWH_ROWS_RANGE = 1,   // rows [begin, end), cut to the rows there are; begin is not after end
    IDCWH_ROWS_LIST = 2,    // the count rows of list: ascending, none twice, all below size
    IDCWH_ROWS_BITMAP = 3,  // bit r % 64 of bitmap[r / 64] for row r
    IDCWH_ROWS_BYTES = 4,   // bytes[r] is not zero
};
typedef struct idcwh_rows {
    int kind;
    size_t begin, end;
    const int64_t* list;
    size_t count;
    const uint64_t* bitmap;
    const uint8_t* bytes;
} idcwh_rows;

typedef struct idcwh_search_options {
    const int64_t* ids;  // [size] unique, in any order; null: the id of a row is its number
    idcwh_rows rows;
    unsigned threads;  // 0: as many as the process may use; at most 1024
    idcwh_interrupt interrupt;
    void* interrupt_context;
} idcwh_search_options;

// How many rows a search can return at most.
IDCWH_API int idcwh_eligible(const idcwh_codes* codes, const idcwh_search_options* options, size_t* count);

// The k nearest of each of nq queries. kept (may be null) becomes min(k, eligible); distances and ids have room for
// nq * kept and are filled query after query.
IDCWH_API int idcwh_topk(const idcwh_codes* codes, const uint8_t* queries, size_t nq, size_t k,
                         const idcwh_search_options* options, int32_t* distances, int64_t* ids, size_t* kept);

// The k nearest, and whatever is as near as the k-th.
IDCWH_API int idcwh_topk_ties(const idcwh_codes* codes, const uint8_t* queries, size_t nq, size_t k,
                              const idcwh_search_options* options, idcwh_hits** hits);

// Everything within radius, the radius included.
IDCWH_API int idcwh_radius(const idcwh_codes* codes, const uint8_t* queries, size_t nq, unsigned radius,
                           const idcwh_search_options* options, idcwh_hits** hits);

// How many rows lie within radius of each query: counts[nq].
IDCWH_API int idcwh_count(const idcwh_codes* codes, const uint8_t* queries, size_t nq, unsigned radius,
                          const idcwh_search_options* options, int64_t* counts);

// How many rows lie at each distance of each query: counts[nq][bits + 1].
IDCWH_API int idcwh_histogram(const idcwh_codes* codes, const uint8_t* queries, size_t nq,
                              const idcwh_search_options* options, int64_t* counts);

// Every eligible row for each query, nearest first. distances and ids have room for nq * eligible; kept (may be null)
// becomes eligible.
IDCWH_API int idcwh_rank(const idcwh_codes* codes, const uint8_t* queries, size_t nq,
                         const idcwh_search_options* options, int32_t* distances, int64_t* ids, size_t* kept);

// result becomes 1 when the padding bits of every row are zero, as they must be, and else 0. Searches do not look.
IDCWH_API int idcwh_padding_is_zero(const idcwh_codes* codes, int* result);

// ---- Threads --------------------------------------------------------------------------------------------------------

// How many threads a search uses that does not say; 0: back to IDCWH_THREADS or the process's affinity. At most 1024.
IDCWH_API int idcwh_set_threads(unsigned threads);
IDCWH_API unsigned idcwh_threads(void);

// Lends the searches threads of the caller's: must call body(work, 0) .. body(work, tasks - 1), each once, on up to
// `threads` threads (the calling one may be among them), and return when all are done. Called from many threads at
// once; must not throw or jump out. A null executor goes back to the library's own threads.
typedef void (*idcwh_body)(void* work, size_t task);
typedef void (*idcwh_executor)(void* context, size_t tasks, unsigned threads, idcwh_body body, void* work);
IDCWH_API int idcwh_set_executor(idcwh_executor executor, void* context);

// ---- Index: codes with ids that come and go -------------------------------------------------------------------------
//
// Searches run on snapshots, from any number of threads, and never wait for a writer; writers take turns among
// themselves. After an error the index is as it was.

typedef struct idcwh_index idcwh_index;
typedef struct idcwh_snapshot idcwh_snapshot;

IDCWH_API int idcwh_index_create(unsigned bits, idcwh_index** index);
IDCWH_API void idcwh_index_free(idcwh_index* index);  // snapshots that were taken stay as they are
IDCWH_API unsigned idcwh_index_bits(const idcwh_index* index);
IDCWH_API size_t idcwh_index_size(const idcwh_index* index);

// Adds n codes. ids: >= 0, none twice, none that is there already; null: they go on from the largest ever used.
// assigned, where it is not null, receives the n ids.
IDCWH_API int idcwh_index_add(idcwh_index* index, const uint8_t* codes, size_t n, const int64_t* ids,
                              int64_t* assigned);

// Removes the codes with these ids; removed (may be null) becomes their number, an id given twice counted once.
// IDCWH_NOT_FOUND names the first that is not there, and then nothing is removed.
IDCWH_API int idcwh_index_remove(idcwh_index* index, const int64_t* ids, size_t count, size_t* removed);

// Makes room for this many codes in all.
IDCWH_API int idcwh_index_reserve(idcwh_index* index, size_t size);

// Builds what makes searches faster and never changes a result, within `memory` bytes beyond the codes and ids, and
// drops what was built before.
typedef struct idcwh_optimize_options {
    size_t memory;  // 0: 128 bytes per code and 1 MiB
    unsigned threads;
    idcwh_interrupt interrupt;
    void* interrupt_context;
} idcwh_optimize_options;
IDCWH_API int idcwh_index_optimize(idcwh_index* index, const idcwh_optimize_options* options);
IDCWH_API int idcwh_index_drop_structures(idcwh_index* index);

// Threads of a search of this index that does not say; 0: idcwh_threads().
IDCWH_API int idcwh_index_set_threads(idcwh_index* index, unsigned threads);

// What the index holds at this moment: it stays so, costs nothing to take, and may outlive the index.
IDCWH_API int idcwh_index_snapshot(const idcwh_index* index, idcwh_snapshot** snapshot);
IDCWH_API void idcwh_snapshot_free(idcwh_snapshot* snapshot);
IDCWH_API unsigned idcwh_snapshot_bits(const idcwh_snapshot* snapshot);
IDCWH_API size_t idcwh_snapshot_size(const idcwh_snapshot* snapshot);

// What a search may return.
enum {
    IDCWH_WHERE_ALL = 0,
    IDCWH_WHERE_IDS = 1,       // the count ids of ids, in any order; those that are not there select nothing
    IDCWH_WHERE_ID_RANGE = 2,  // ids in [first, last)
    IDCWH_WHERE_BYTES = 3,     // bytes[i] is not zero, for the i-th code in the order they were added; count: the size
    IDCWH_WHERE_BITMAP = 4,    // the same as bits, 64 a word, lowest first; count: the size
};
typedef struct idcwh_where {
    int kind;
    const int64_t* ids;
    size_t count;
    int64_t first, last;
    const uint8_t* bytes;
    const uint64_t* bitmap;
} idcwh_where;

typedef struct idcwh_query_options {
    idcwh_where where;
    unsigned threads;
    idcwh_interrupt interrupt;
    void* interrupt_context;
} idcwh_query_options;

// As above, over a snapshot.
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

// found becomes 1 or 0.
IDCWH_API int idcwh_snapshot_contains(const idcwh_snapshot* snapshot, int64_t id, int* found);

// Copies the codes of these ids to out, count rows. IDCWH_NOT_FOUND names the first that is missing.
IDCWH_API int idcwh_snapshot_get(const idcwh_snapshot* snapshot, const int64_t* ids, size_t count, uint8_t* out);

// Copies all codes and all ids, in the order they were added. Either may be null.
IDCWH_API int idcwh_snapshot_copy(const idcwh_snapshot* snapshot, uint8_t* codes, int64_t* ids);

// Bytes that codes, ids and structures take, room to grow included.
IDCWH_API int idcwh_snapshot_memory(const idcwh_snapshot* snapshot, size_t* bytes);

// How a search would run and why, as text with an end: at most capacity - 1 characters of it. length (may be null)
// becomes the length of the whole, the end not counted; with capacity 0, text may be null.
IDCWH_API int idcwh_snapshot_explain_topk(const idcwh_snapshot* snapshot, size_t k, size_t nq, const idcwh_where* where,
                                          char* text, size_t capacity, size_t* length);
IDCWH_API int idcwh_snapshot_explain_radius(const idcwh_snapshot* snapshot, unsigned radius, size_t nq,
                                            const idcwh_where* where, char* text, size_t capacity, size_t* length);
// What optimize has built: for each structure a line with its name, codes, bytes and parameters.
IDCWH_API int idcwh_snapshot_structures(const idcwh_snapshot* snapshot, char* text, size_t capacity, size_t* length);

#ifdef __cplusplus
}
#endif

#include "idcwh_database.h"
