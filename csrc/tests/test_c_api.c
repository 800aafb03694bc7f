// The C ABI over the caller's memory: exact results, and an error with the found and the expected value for each
// invalid argument.
#include "check.h"

enum { bits = 12, n = 6 };
// Rows 0 to 5 have distances 0, 3, 1, 1, 12, 0 from zero; padding bits are zero.
static const uint8_t memory[2 * n] = {0, 0, 0x07, 0, 0, 0x08, 0x10, 0, 0xff, 0x0f, 0, 0};
static const uint8_t query[2] = {0, 0};
static const idcwh_codes codes = {memory, n, bits};

static int32_t distances[n];
static int64_t ids[n], counts[bits + 1];
static size_t kept;
static idcwh_hits* hits;
static idcwh_search_options options;

static int topk(idcwh_codes view, const uint8_t* queries, size_t nq) {
    return idcwh_topk(&view, queries, nq, 1, NULL, distances, ids, &kept);
}

static int topk_with(idcwh_search_options with) {
    return idcwh_topk(&codes, query, 1, 3, &with, distances, ids, &kept);
}

static void answers(void) {
    CHECK(idcwh_topk(&codes, query, 1, 3, NULL, distances, ids, &kept) == IDCWH_OK && kept == 3);
    CHECK(ids[0] == 0 && ids[1] == 5 && ids[2] == 2 && distances[1] == 0 && distances[2] == 1);
    CHECK(idcwh_topk(&codes, query, 1, SIZE_MAX, NULL, distances, ids, &kept) == IDCWH_OK && kept == n);
    CHECK(idcwh_topk(&codes, query, 1, 0, NULL, NULL, NULL, NULL) == IDCWH_OK);
    CHECK(idcwh_topk(&codes, NULL, 0, 3, NULL, NULL, NULL, &kept) == IDCWH_OK && kept == 3);
    CHECK(idcwh_rank(&codes, query, 1, NULL, distances, ids, &kept) == IDCWH_OK && kept == n);
    CHECK(ids[4] == 1 && ids[5] == 4 && distances[5] == 12);

    CHECK(idcwh_topk_ties(&codes, query, 1, 3, NULL, &hits) == IDCWH_OK);
    CHECK(idcwh_hits_queries(hits) == 1 && idcwh_hits_limits(hits)[1] == 4 && idcwh_hits_ids(hits)[3] == 3);
    idcwh_hits_free(hits);
    CHECK(idcwh_radius(&codes, query, 1, 1, NULL, &hits) == IDCWH_OK);
    CHECK(idcwh_hits_limits(hits)[0] == 0 && idcwh_hits_limits(hits)[1] == 4 && idcwh_hits_distances(hits)[3] == 1);
    idcwh_hits_free(hits);
    CHECK(idcwh_radius(&codes, query, 1, 4000000000u, NULL, &hits) == IDCWH_OK && idcwh_hits_limits(hits)[1] == n);
    idcwh_hits_free(hits);
    idcwh_hits_free(NULL);
    CHECK(idcwh_count(&codes, query, 1, 1, NULL, counts) == IDCWH_OK && counts[0] == 4);
    CHECK(idcwh_histogram(&codes, query, 1, NULL, counts) == IDCWH_OK);
    CHECK(counts[0] == 2 && counts[1] == 2 && counts[2] == 0 && counts[3] == 1 && counts[12] == 1);

    int zero = -1;
    CHECK(idcwh_padding_is_zero(&codes, &zero) == IDCWH_OK && zero == 1);
    const idcwh_codes narrower = {memory, n, bits - 1};  // the last bit of 0xff 0x0f becomes padding
    CHECK(idcwh_padding_is_zero(&narrower, &zero) == IDCWH_OK && zero == 0);

    // Rows at an odd address, with no memory after them.
    uint8_t* odd = (uint8_t*)malloc(sizeof memory + 1);
    memcpy(odd + 1, memory, sizeof memory);
    const idcwh_codes moved = {odd + 1, n, bits};
    CHECK(idcwh_topk(&moved, query, 1, 3, NULL, distances, ids, &kept) == IDCWH_OK && ids[2] == 2);
    free(odd);
}

static void rows_and_ids(void) {
    static const int64_t own_ids[n] = {50, 40, 30, 20, 10, 0}, list[] = {1, 3, 4};
    static const uint8_t bytes[n] = {0, 1, 0, 0, 0, 9};
    static const uint64_t bitmap[1] = {1u << 4 | 1u << 1};
    idcwh_search_options with = {0};
    CHECK(idcwh_eligible(&codes, &with, &kept) == IDCWH_OK && kept == n);
    with.ids = own_ids;
    CHECK(topk_with(with) == IDCWH_OK && ids[0] == 0 && ids[1] == 50 && ids[2] == 20);
    with.rows.kind = IDCWH_ROWS_LIST, with.rows.list = list, with.rows.count = 3;
    CHECK(topk_with(with) == IDCWH_OK && kept == 3 && ids[0] == 20 && ids[1] == 40 && ids[2] == 10);
    with.rows.kind = IDCWH_ROWS_BYTES, with.rows.bytes = bytes;
    CHECK(topk_with(with) == IDCWH_OK && kept == 2 && ids[0] == 0 && ids[1] == 40);
    with.rows.kind = IDCWH_ROWS_BITMAP, with.rows.bitmap = bitmap;
    CHECK(topk_with(with) == IDCWH_OK && kept == 2 && ids[0] == 40 && ids[1] == 10);
    with.rows.kind = IDCWH_ROWS_RANGE, with.rows.begin = 4, with.rows.end = SIZE_MAX;
    CHECK(topk_with(with) == IDCWH_OK && kept == 2 && ids[0] == 0 && ids[1] == 10);
    with.rows.begin = 5, with.rows.end = 2;
    INVALID("rows.begin|5 and 2", idcwh_eligible(&codes, &with, &kept));
    with.rows.begin = 2;
    CHECK(idcwh_eligible(&codes, &with, &kept) == IDCWH_OK && kept == 0);
}

static void bad_codes_and_queries(void) {
    INVALID("codes|null", idcwh_topk(NULL, query, 1, 1, NULL, distances, ids, &kept));
    INVALID("bits|65535|found 0", topk((idcwh_codes){memory, n, 0}, query, 1));
    INVALID("bits|65535|found 65536", topk((idcwh_codes){memory, n, 65536}, query, 1));
    INVALID("data|null|6", topk((idcwh_codes){NULL, n, bits}, query, 1));
    INVALID("size|address space", topk((idcwh_codes){memory, SIZE_MAX, bits}, query, 1));
    INVALID("size|address space", topk((idcwh_codes){memory, SIZE_MAX / 2, bits}, query, 1));
    INVALID("queries|null|1", topk(codes, NULL, 1));
    INVALID("nq|address space", topk(codes, query, SIZE_MAX));
    INVALID("nq|address space", topk(codes, query, SIZE_MAX / 2));
    INVALID("null", idcwh_topk(&codes, query, 1, 1, NULL, NULL, ids, &kept));
    INVALID("null", idcwh_topk(&codes, query, 1, 1, NULL, distances, NULL, &kept));
    INVALID("null", idcwh_rank(&codes, query, 1, NULL, NULL, ids, &kept));
    INVALID("null", idcwh_rank(&codes, query, 1, NULL, distances, NULL, &kept));
    INVALID("hits|null", idcwh_radius(&codes, query, 1, 1, NULL, NULL));
    INVALID("hits|null", idcwh_topk_ties(&codes, query, 1, 1, NULL, NULL));
    INVALID("null", idcwh_count(&codes, query, 1, 1, NULL, NULL));
    INVALID("null", idcwh_histogram(&codes, query, 1, NULL, NULL));
    INVALID("count|null", idcwh_eligible(&codes, NULL, NULL));
    INVALID("result|null", idcwh_padding_is_zero(&codes, NULL));
    int zero;
    const idcwh_codes nowhere = {NULL, n, bits};
    INVALID("data|null", idcwh_padding_is_zero(&nowhere, &zero));
    const idcwh_codes widthless = {memory, n, 0};
    INVALID("bits", idcwh_rank(&widthless, query, 1, NULL, distances, ids, &kept));
    INVALID("bits", idcwh_count(&widthless, query, 1, 1, NULL, counts));
    INVALID("bits", idcwh_histogram(&widthless, query, 1, NULL, counts));
    hits = (idcwh_hits*)memory;
    INVALID("bits", idcwh_radius(&widthless, query, 1, 1, NULL, &hits));
    CHECK(hits == NULL);
    hits = (idcwh_hits*)memory;
    INVALID("bits", idcwh_topk_ties(&widthless, query, 1, 1, NULL, &hits));
    CHECK(hits == NULL);
    CHECK(idcwh_hits_queries(NULL) == 0 && !idcwh_hits_limits(NULL) && !idcwh_hits_ids(NULL));
}

static void bad_options(void) {
    static const int64_t descending[] = {2, 1}, twice[] = {1, 1}, beyond[] = {0, n}, negative[] = {-1, 0};
    const int64_t* const lists[] = {descending, twice, beyond, negative};
    idcwh_search_options with = {0};
    with.threads = 1025;
    INVALID("threads|1024|1025", topk_with(with));
    with.threads = 0;
    with.rows.kind = 5;
    INVALID("rows.kind|0 to 4|5", topk_with(with));
    INVALID("rows.kind", idcwh_eligible(&codes, &with, &kept));
    with.rows.kind = -1;
    INVALID("rows.kind|-1", topk_with(with));
    with.rows.kind = IDCWH_ROWS_LIST, with.rows.count = 2;
    INVALID("list|null", topk_with(with));
    for (int i = 0; i < 4; ++i) {
        with.rows.list = lists[i];
        INVALID("list", topk_with(with));
        INVALID("list", idcwh_rank(&codes, query, 1, &with, distances, ids, &kept));
    }
    with.rows.list = descending, with.rows.count = SIZE_MAX;
    INVALID("rows.count|6", topk_with(with));
    with.rows.kind = IDCWH_ROWS_BITMAP;
    INVALID("bitmap|null", topk_with(with));
    with.rows.kind = IDCWH_ROWS_BYTES;
    INVALID("bytes|null", topk_with(with));
}

static int at_once(void* context) {
    ++*(int*)context;
    return 1;
}

static void interrupts(void) {
    enum { many = 2000000, query_count = 1000 };
    uint8_t *large = (uint8_t*)calloc(many, 8), *queries = (uint8_t*)malloc(query_count * 8);
    memset(queries, 0xff, query_count * 8);
    int32_t* d = (int32_t*)malloc(query_count * sizeof *d);
    int64_t* i = (int64_t*)malloc(query_count * sizeof *i);
    int calls = 0;
    const idcwh_codes all = {large, many, 64};
    options.interrupt = at_once;
    options.interrupt_context = &calls;
    REFUSED(IDCWH_INTERRUPTED, "interrupt", idcwh_topk(&all, queries, query_count, 1, &options, d, i, &kept));
    CHECK(calls == 1);
    free(large), free(queries), free(d), free(i);
}

// Runs the tasks in reverse order, which is allowed. The count shows that the library's own threads did not run them.
static void backwards(void* context, size_t tasks, unsigned threads, idcwh_body body, void* work) {
    CHECK(threads >= 1);
    for (size_t task = tasks; task--;) body(work, task);
    ++*(int*)context;
}

static void process_wide(void) {
    CHECK(strcmp(idcwh_version(), "0.1.0") == 0);
    CHECK(idcwh_isa() != NULL);
    INVALID("abacus|portable", idcwh_isa_force("abacus"));
    INVALID("name|null", idcwh_isa_force(NULL));
    CHECK(idcwh_isa_force("portable") == IDCWH_OK && strcmp(idcwh_isa(), "portable") == 0);
    CHECK(idcwh_isa_force("auto") == IDCWH_OK);

    INVALID("threads|1024|1025", idcwh_set_threads(1025));
    CHECK(idcwh_set_threads(3) == IDCWH_OK && idcwh_threads() == 3);
    CHECK(idcwh_set_threads(0) == IDCWH_OK && idcwh_threads() >= 1);

    enum { many = 1000 };
    uint8_t* large = (uint8_t*)calloc(many, 8);
    int32_t d[many];
    int64_t i[many];
    int calls = 0;
    const idcwh_codes all = {large, many, 64};
    idcwh_search_options with = {0};
    with.threads = 4;
    CHECK(idcwh_set_executor(backwards, &calls) == IDCWH_OK);
    CHECK(idcwh_rank(&all, large, 1, &with, d, i, &kept) == IDCWH_OK && i[many - 1] == many - 1);
    CHECK(idcwh_topk(&all, large, 1, many, &with, d, i, &kept) == IDCWH_OK && i[7] == 7);
    CHECK(calls >= 1);
    CHECK(idcwh_set_executor(NULL, NULL) == IDCWH_OK);
    free(large);
}

int main(void) {
    CHECK(strcmp(idcwh_last_error(), "") == 0);
    answers();
    rows_and_ids();
    bad_codes_and_queries();
    bad_options();
    interrupts();
    process_wide();
    if (failures) printf("%d checks failed\n", failures);
    return failures ? 1 : 0;
}
