// The C ABI of the index: changes and snapshots, and an error with the found and the expected value for each invalid
// argument.
#include "check.h"

enum { bits = 12 };
static const uint8_t query[2] = {0, 0};
static const uint8_t first[8] = {0, 0, 0x07, 0, 0, 0x08, 0x10, 0};  // at distances 0, 3, 1, 1 from zero
static int32_t distances[8];
static int64_t ids[8], counts[bits + 1];
static size_t kept;

static void life(void) {
    idcwh_index* index = NULL;
    idcwh_snapshot *before = NULL, *after = NULL;
    int64_t assigned[4], removed[] = {0, 2, 0};
    const int64_t given[] = {100, 90};
    CHECK(idcwh_index_create(bits, &index) == IDCWH_OK && idcwh_index_bits(index) == bits);
    CHECK(idcwh_index_reserve(index, 100) == IDCWH_OK && idcwh_index_size(index) == 0);
    CHECK(idcwh_index_add(index, first, 4, NULL, assigned) == IDCWH_OK && assigned[3] == 3);
    CHECK(idcwh_index_snapshot(index, &before) == IDCWH_OK);
    CHECK(idcwh_index_add(index, first, 2, given, NULL) == IDCWH_OK && idcwh_index_size(index) == 6);
    CHECK(idcwh_index_remove(index, removed, 3, &kept) == IDCWH_OK && kept == 2);
    CHECK(idcwh_index_add(index, first, 1, NULL, assigned) == IDCWH_OK && assigned[0] == 101);
    CHECK(idcwh_index_set_threads(index, 2) == IDCWH_OK);
    CHECK(idcwh_index_optimize(index, NULL) == IDCWH_OK);
    CHECK(idcwh_index_snapshot(index, &after) == IDCWH_OK);
    CHECK(idcwh_index_drop_structures(index) == IDCWH_OK);
    idcwh_index_free(index);
    idcwh_index_free(NULL);

    // The older snapshot sees no later change, the newer one all. Both outlive the index.
    CHECK(idcwh_snapshot_size(before) == 4 && idcwh_snapshot_bits(before) == bits);
    CHECK(idcwh_snapshot_topk(before, query, 1, 8, NULL, distances, ids, &kept) == IDCWH_OK && kept == 4);
    CHECK(ids[0] == 0 && ids[1] == 2 && ids[2] == 3 && ids[3] == 1 && distances[3] == 3);
    CHECK(idcwh_snapshot_size(after) == 5);  // ids 1, 3, 100, 90, 101 at distances 3, 1, 0, 3, 0
    CHECK(idcwh_snapshot_rank(after, query, 1, NULL, distances, ids, &kept) == IDCWH_OK && kept == 5);
    CHECK(ids[0] == 100 && ids[1] == 101 && ids[2] == 3 && ids[3] == 1 && ids[4] == 90);

    idcwh_hits* hits = NULL;
    CHECK(idcwh_snapshot_topk_ties(after, query, 1, 1, NULL, &hits) == IDCWH_OK && idcwh_hits_limits(hits)[1] == 2);
    idcwh_hits_free(hits);
    CHECK(idcwh_snapshot_radius(after, query, 1, 1, NULL, &hits) == IDCWH_OK && idcwh_hits_ids(hits)[2] == 3);
    idcwh_hits_free(hits);
    CHECK(idcwh_snapshot_count(after, query, 1, 2, NULL, counts) == IDCWH_OK && counts[0] == 3);
    CHECK(idcwh_snapshot_histogram(after, query, 1, NULL, counts) == IDCWH_OK && counts[0] == 2 && counts[3] == 2);

    int found = -1;
    CHECK(idcwh_snapshot_contains(after, 90, &found) == IDCWH_OK && found == 1);
    CHECK(idcwh_snapshot_contains(after, 0, &found) == IDCWH_OK && found == 0);
    CHECK(idcwh_snapshot_contains(after, -1, &found) == IDCWH_OK && found == 0);
    uint8_t out[10];
    int64_t order[5];
    CHECK(idcwh_snapshot_get(after, given, 2, out) == IDCWH_OK && memcmp(out, first, 4) == 0);
    CHECK(idcwh_snapshot_copy(after, out, order) == IDCWH_OK);
    CHECK(order[0] == 1 && order[1] == 3 && order[2] == 100 && order[4] == 101 && out[0] == 0x07);
    CHECK(idcwh_snapshot_copy(after, NULL, order) == IDCWH_OK && idcwh_snapshot_copy(after, out, NULL) == IDCWH_OK);
    size_t bytes = 0;
    CHECK(idcwh_snapshot_memory(after, &bytes) == IDCWH_OK && bytes >= 5 * (2 + 8));
    idcwh_snapshot_free(before), idcwh_snapshot_free(after), idcwh_snapshot_free(NULL);
}

static void selections(idcwh_snapshot* view) {
    idcwh_query_options with = {0};
    const int64_t some[] = {3, 1, 3, 77};
    const uint8_t bytes[] = {0, 1, 0, 1};
    const uint64_t bitmap[] = {0xa};
    with.where.kind = IDCWH_WHERE_IDS, with.where.ids = some, with.where.count = 4;
    CHECK(idcwh_snapshot_topk(view, query, 1, 4, &with, distances, ids, &kept) == IDCWH_OK && kept == 2);
    CHECK(ids[0] == 3 && ids[1] == 1);
    with.where.kind = IDCWH_WHERE_ID_RANGE, with.where.first = 2, with.where.last = INT64_MAX;
    CHECK(idcwh_snapshot_topk(view, query, 1, 4, &with, distances, ids, &kept) == IDCWH_OK && kept == 2 && ids[0] == 2);
    with.where.kind = IDCWH_WHERE_BYTES, with.where.bytes = bytes;
    CHECK(idcwh_snapshot_topk(view, query, 1, 4, &with, distances, ids, &kept) == IDCWH_OK && kept == 2 && ids[0] == 3);
    with.where.kind = IDCWH_WHERE_BITMAP, with.where.bitmap = bitmap;
    CHECK(idcwh_snapshot_eligible(view, &with.where, &kept) == IDCWH_OK && kept == 2);

    const int64_t excluded[] = {3, -1, 2, 77};  // two ids for each of two queries; the mask leaves 1 and 3
    const uint8_t both[4] = {0};
    with.exclude = excluded, with.exclude_count = 2;
    CHECK(idcwh_snapshot_topk(view, both, 2, 4, &with, distances, ids, &kept) == IDCWH_OK && kept == 2);
    CHECK(ids[0] == 1 && ids[1] == -1 && distances[1] == INT32_MAX && ids[2] == 3 && ids[3] == 1);
    CHECK(idcwh_snapshot_count(view, both, 2, bits, &with, counts) == IDCWH_OK && counts[0] == 1 && counts[1] == 2);
    with.exclude = NULL;
    INVALID("exclude|null", idcwh_snapshot_topk(view, both, 2, 4, &with, distances, ids, &kept));
    with.exclude_count = 0;

    with.where.count = 3;
    INVALID("3|4", idcwh_snapshot_eligible(view, &with.where, &kept));
    INVALID("3|4", idcwh_snapshot_topk(view, query, 1, 4, &with, distances, ids, &kept));
    with.where.kind = IDCWH_WHERE_BYTES, with.where.count = SIZE_MAX;
    INVALID("4", idcwh_snapshot_topk(view, query, 1, 4, &with, distances, ids, &kept));
    with.where.bytes = NULL, with.where.count = 4;
    INVALID("null", idcwh_snapshot_topk(view, query, 1, 4, &with, distances, ids, &kept));
    with.where.kind = IDCWH_WHERE_BITMAP, with.where.bitmap = NULL;
    INVALID("null", idcwh_snapshot_topk(view, query, 1, 4, &with, distances, ids, &kept));
    with.where.kind = IDCWH_WHERE_IDS, with.where.ids = NULL;
    INVALID("null", idcwh_snapshot_topk(view, query, 1, 4, &with, distances, ids, &kept));
    with.where.kind = 5;
    INVALID("where.kind|0 to 4|5", idcwh_snapshot_topk(view, query, 1, 4, &with, distances, ids, &kept));
    INVALID("where.kind", idcwh_snapshot_eligible(view, &with.where, &kept));
    INVALID("where.kind", idcwh_snapshot_explain_topk(view, 1, 1, &with.where, NULL, 0, NULL));
}

static void bad_changes(idcwh_index* index) {
    const int64_t negative[] = {7, -1}, twice[] = {7, 7}, there[] = {7, 3}, missing[] = {1, 99};
    INVALID("codes|null", idcwh_index_add(index, NULL, 1, NULL, NULL));
    INVALID("address space", idcwh_index_add(index, first, SIZE_MAX, NULL, NULL));
    INVALID("-1", idcwh_index_add(index, first, 2, negative, NULL));
    INVALID("7", idcwh_index_add(index, first, 2, twice, NULL));
    INVALID("3", idcwh_index_add(index, first, 2, there, NULL));
    REFUSED(IDCWH_NOT_FOUND, "99", idcwh_index_remove(index, missing, 2, &kept));
    INVALID("null", idcwh_index_remove(index, NULL, 1, &kept));
    INVALID("threads|1024|1025", idcwh_index_set_threads(index, 1025));
    const uint8_t padded[2] = {0, 0x10};
    INVALID("padding", idcwh_index_add(index, padded, 1, NULL, NULL));
    CHECK(idcwh_index_size(index) == 4);
    const int status = idcwh_index_reserve(index, SIZE_MAX);
    CHECK(status == IDCWH_OUT_OF_MEMORY || status == IDCWH_INVALID_ARGUMENT);
    CHECK(idcwh_index_size(index) == 4);
}

static void bad_views(idcwh_snapshot* view) {
    const int64_t missing[] = {1, 99};
    uint8_t out[4];
    int found;
    idcwh_hits* hits = (idcwh_hits*)first;
    idcwh_query_options with = {0};
    with.threads = 1025;
    INVALID("threads|1025", idcwh_snapshot_topk(view, query, 1, 1, &with, distances, ids, &kept));
    INVALID("queries|null", idcwh_snapshot_topk(view, NULL, 1, 1, NULL, distances, ids, &kept));
    INVALID("nq", idcwh_snapshot_topk(view, query, SIZE_MAX, 1, NULL, distances, ids, &kept));
    INVALID("null", idcwh_snapshot_topk(view, query, 1, 1, NULL, NULL, ids, &kept));
    INVALID("null", idcwh_snapshot_rank(view, query, 1, NULL, distances, NULL, &kept));
    INVALID("queries|null", idcwh_snapshot_radius(view, NULL, 1, 1, NULL, &hits));
    CHECK(hits == NULL);
    INVALID("hits|null", idcwh_snapshot_topk_ties(view, query, 1, 1, NULL, NULL));
    INVALID("null", idcwh_snapshot_count(view, query, 1, 1, NULL, NULL));
    INVALID("null", idcwh_snapshot_histogram(view, query, 1, NULL, NULL));
    REFUSED(IDCWH_NOT_FOUND, "99", idcwh_snapshot_get(view, missing, 2, out));
    INVALID("null", idcwh_snapshot_get(view, NULL, 1, out));
    INVALID("null", idcwh_snapshot_get(view, missing, 1, NULL));
    INVALID("found|null", idcwh_snapshot_contains(view, 1, NULL));
    INVALID("count|null", idcwh_snapshot_eligible(view, NULL, NULL));
    INVALID("bytes|null", idcwh_snapshot_memory(view, NULL));
    INVALID("text|null", idcwh_snapshot_explain_topk(view, 1, 1, NULL, NULL, 9, &kept));

    INVALID("snapshot|null", idcwh_snapshot_topk(NULL, query, 1, 1, NULL, distances, ids, &kept));
    INVALID("snapshot|null", idcwh_snapshot_radius(NULL, query, 1, 1, NULL, &hits));
    INVALID("snapshot|null", idcwh_snapshot_contains(NULL, 1, &found));
    INVALID("snapshot|null", idcwh_snapshot_copy(NULL, out, NULL));
    CHECK(idcwh_snapshot_size(NULL) == 0 && idcwh_snapshot_bits(NULL) == 0);
}

static void explanations(idcwh_snapshot* view) {
    char text[2000], start[6];
    size_t length = 0, again = 0;
    CHECK(idcwh_snapshot_explain_topk(view, 2, 1, NULL, NULL, 0, &length) == IDCWH_OK && length > 0);
    CHECK(idcwh_snapshot_explain_topk(view, 2, 1, NULL, text, sizeof text, &again) == IDCWH_OK);
    CHECK(again == length && strlen(text) == length && strstr(text, "scan"));
    CHECK(idcwh_snapshot_explain_topk(view, 2, 1, NULL, start, sizeof start, NULL) == IDCWH_OK);
    CHECK(strlen(start) == 5 && strncmp(start, text, 5) == 0);
    CHECK(idcwh_snapshot_explain_radius(view, 2, 1, NULL, text, sizeof text, NULL) == IDCWH_OK && strlen(text) > 0);
    CHECK(idcwh_snapshot_structures(view, text, sizeof text, &length) == IDCWH_OK && strlen(text) == length);
}

int main(void) {
    life();
    idcwh_index* index = (idcwh_index*)first;
    idcwh_snapshot* view = (idcwh_snapshot*)first;
    INVALID("bits|65535|found 0", idcwh_index_create(0, &index));
    CHECK(index == NULL);
    INVALID("bits|65535|65536", idcwh_index_create(65536, &index));
    INVALID("index|null", idcwh_index_create(8, NULL));
    INVALID("index|null", idcwh_index_add(NULL, first, 1, NULL, NULL));
    INVALID("index|null", idcwh_index_optimize(NULL, NULL));
    INVALID("index|null", idcwh_index_snapshot(NULL, &view));
    CHECK(view == NULL && idcwh_index_size(NULL) == 0 && idcwh_index_bits(NULL) == 0);

    CHECK(idcwh_index_create(bits, &index) == IDCWH_OK);
    CHECK(idcwh_index_add(index, first, 4, NULL, NULL) == IDCWH_OK);
    INVALID("snapshot|null", idcwh_index_snapshot(index, NULL));
    CHECK(idcwh_index_snapshot(index, &view) == IDCWH_OK);
    selections(view);
    bad_changes(index);
    bad_views(view);
    explanations(view);
    idcwh_snapshot_free(view);
    idcwh_index_free(index);
    if (failures) printf("%d checks failed\n", failures);
    return failures ? 1 : 0;
}
