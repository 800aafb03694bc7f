// Joins by the C ABI: rows, ids of snapshots, blocks of every capacity, clusters, interrupts, and an error for each
// invalid argument.
#include "check.h"

enum { bits = 12, n = 6, most = n * n };
// Rows 0 and 5 are equal. Row 1 differs from them in three bits, rows 2 and 3 in one bit each, row 4 in all.
static const uint8_t memory[2 * n] = {0, 0, 0x07, 0, 0, 0x08, 0x10, 0, 0xff, 0x0f, 0, 0};
static const idcwh_codes codes = {memory, n, bits}, start = {memory, 3, bits};
static const int64_t ids[n] = {50, 5000000000, 30, 20, 10, 0};

static int64_t first[most], second[most];
static int32_t distances[most];
static size_t count;
static uint64_t total;

static int distance(size_t i, size_t j) {
    int sum = 0;
    for (size_t bit = 0; bit < bits; ++bit) sum += (memory[2 * i + bit / 8] ^ memory[2 * j + bit / 8]) >> bit % 8 & 1;
    return sum;
}

// Reads a stream in blocks, frees it, and returns the number of pairs.
static size_t read_all(idcwh_pairs* pairs, size_t capacity) {
    size_t sum = 0;
    do {
        const size_t room = capacity < most - sum ? capacity : most - sum;
        CHECK(idcwh_pairs_next(pairs, room, first + sum, second + sum, distances + sum, &count) == IDCWH_OK);
        CHECK(count <= room);
        sum += count;
    } while (count && sum < most);
    idcwh_pairs_free(pairs);
    return sum;
}

// Checks that the pairs are those of the loop, each once. rows: the ids of rows 0, 1, ...; null: row numbers.
static void check_pairs(size_t found, size_t end_j, unsigned radius, int self, const int64_t* rows) {
    size_t expected = 0;
    for (size_t i = 0; i < n; ++i)
        for (size_t j = self ? i + 1 : 0; j < end_j; ++j) {
            if (distance(i, j) > (int)radius) continue;
            int64_t a = rows ? rows[i] : (int64_t)i, b = rows ? rows[j] : (int64_t)j;
            if (self && a > b) a = b, b = rows[i];
            int times = 0;
            for (size_t at = 0; at < found; ++at)
                times += first[at] == a && second[at] == b && distances[at] == distance(i, j);
            CHECK(times == 1);
            ++expected;
        }
    CHECK(found == expected);
}

static void memory_joins(void) {
    idcwh_pairs* pairs;
    for (unsigned radius = 0; radius <= bits; ++radius)
        for (size_t capacity = 1; capacity <= most; capacity += 7) {
            CHECK(idcwh_join(&codes, NULL, radius, NULL, &pairs) == IDCWH_OK);
            const size_t found = read_all(pairs, capacity);
            check_pairs(found, n, radius, 1, NULL);
            CHECK(idcwh_count_pairs(&codes, NULL, radius, NULL, &total) == IDCWH_OK && total == found);
            CHECK(idcwh_join(&codes, &start, radius, NULL, &pairs) == IDCWH_OK);
            const size_t between = read_all(pairs, capacity);
            check_pairs(between, 3, radius, 0, NULL);
            CHECK(idcwh_count_pairs(&codes, &start, radius, NULL, &total) == IDCWH_OK && total == between);
        }
    const idcwh_codes none = {NULL, 0, bits};
    CHECK(idcwh_join(&none, NULL, bits, NULL, &pairs) == IDCWH_OK && read_all(pairs, 5) == 0);
    CHECK(idcwh_join(&codes, &none, bits, NULL, &pairs) == IDCWH_OK && read_all(pairs, 5) == 0);
    idcwh_pairs_free(NULL);
}

static void clusters(void) {
    int64_t numbers[n], keys[n];
    CHECK(idcwh_cluster(&codes, 1, IDCWH_CLUSTERS_COMPONENTS, NULL, numbers, &count) == IDCWH_OK && count == 3);
    CHECK(numbers[0] == 0 && numbers[1] == 1 && numbers[2] == 0 && numbers[3] == 0 && numbers[4] == 2);
    CHECK(idcwh_cluster(&codes, 3, IDCWH_CLUSTERS_GREEDY, NULL, numbers, NULL) == IDCWH_OK);
    CHECK(numbers[1] == 0 && numbers[4] == 1 && numbers[5] == 0);
    INVALID("mode|0 to 1|2", idcwh_cluster(&codes, 3, 2, NULL, numbers, NULL));
    INVALID("clusters|null", idcwh_cluster(&codes, 3, 0, NULL, NULL, NULL));
    INVALID("codes|null", idcwh_cluster(NULL, 3, 0, NULL, numbers, NULL));
    INVALID("radius|0 to 12|13", idcwh_cluster(&codes, 13, 0, NULL, numbers, NULL));

    idcwh_index* index;
    idcwh_snapshot* view;
    CHECK(idcwh_index_create(bits, &index) == IDCWH_OK);
    CHECK(idcwh_index_add(index, memory, n, ids, NULL) == IDCWH_OK);
    CHECK(idcwh_index_snapshot(index, &view) == IDCWH_OK);
    const idcwh_where where = {.kind = IDCWH_WHERE_ID_RANGE, .first = 0, .last = 40};
    size_t eligible;
    CHECK(idcwh_snapshot_eligible(view, &where, &eligible) == IDCWH_OK && eligible == 4);
    CHECK(idcwh_snapshot_cluster(view, 1, 0, &where, NULL, keys, numbers, &count) == IDCWH_OK && count == 2);
    CHECK(keys[0] == 30 && keys[1] == 20 && keys[2] == 10 && keys[3] == 0);
    CHECK(numbers[0] == 0 && numbers[1] == 0 && numbers[2] == 1 && numbers[3] == 0);
    INVALID("ids|null", idcwh_snapshot_cluster(view, 1, 0, &where, NULL, NULL, numbers, &count));
    INVALID("snapshot|null", idcwh_snapshot_cluster(NULL, 1, 0, &where, NULL, keys, numbers, &count));
    idcwh_snapshot_free(view);
    idcwh_index_free(index);
}

static void snapshot_joins(void) {
    idcwh_index *index, *wide;
    idcwh_snapshot *view, *other;
    idcwh_pairs* pairs;
    CHECK(idcwh_index_create(bits, &index) == IDCWH_OK && idcwh_index_create(64, &wide) == IDCWH_OK);
    CHECK(idcwh_index_add(index, memory, n, ids, NULL) == IDCWH_OK);
    CHECK(idcwh_index_snapshot(index, &view) == IDCWH_OK && idcwh_index_snapshot(wide, &other) == IDCWH_OK);
    INVALID("b|64 bits|12", idcwh_snapshot_join(view, other, 1, NULL, NULL, &pairs));
    CHECK(pairs == NULL);
    INVALID("b|64 bits|12", idcwh_snapshot_count_pairs(view, other, 1, NULL, NULL, &total));
    idcwh_snapshot_free(other);
    idcwh_index_free(wide);

    // A stream outlives its snapshot and index.
    CHECK(idcwh_snapshot_join(view, NULL, 3, NULL, NULL, &pairs) == IDCWH_OK);
    CHECK(idcwh_snapshot_count_pairs(view, NULL, 3, NULL, NULL, &total) == IDCWH_OK);
    idcwh_pairs* between;
    CHECK(idcwh_snapshot_join(view, view, 3, NULL, NULL, &between) == IDCWH_OK);
    const uint64_t bitmap = 1u << 1 | 1u << 3 | 1u << 5;
    const idcwh_where where = {.kind = IDCWH_WHERE_BITMAP, .bitmap = &bitmap, .count = n};
    idcwh_pairs* selected;
    CHECK(idcwh_snapshot_join(view, NULL, 3, &where, NULL, &selected) == IDCWH_OK);
    const idcwh_where short_mask = {.kind = IDCWH_WHERE_BITMAP, .bitmap = &bitmap, .count = 2};
    idcwh_pairs* none;
    INVALID("mask of 2|6", idcwh_snapshot_join(view, NULL, 3, &short_mask, NULL, &none));
    INVALID("a|null", idcwh_snapshot_join(NULL, view, 3, NULL, NULL, &none));
    idcwh_snapshot_free(view);
    idcwh_index_free(index);
    const size_t found = read_all(pairs, 2);
    check_pairs(found, n, 3, 1, ids);
    CHECK(total == found);
    check_pairs(read_all(between, 4), n, 3, 0, ids);
    CHECK(read_all(selected, 4) == 2);  // rows 1 and 5, 3 and 5
    CHECK(first[0] == 0 && first[1] == 0 && second[0] + second[1] == 5000000020);

    const char* const path = "test_c_api_join.codes.bin";
    idcwh_database* database;
    const idcwh_items items = {.codes = memory, .size = n, .ids = ids};
    CHECK(idcwh_database_create(path, bits, NULL, 1, &database) == IDCWH_OK);
    CHECK(idcwh_database_add(database, &items, NULL) == IDCWH_OK);
    CHECK(idcwh_database_snapshot(database, &view) == IDCWH_OK);
    CHECK(idcwh_snapshot_join(view, NULL, 12, NULL, NULL, &pairs) == IDCWH_OK);
    idcwh_snapshot_free(view);
    idcwh_database_free(database);
    remove(path);
    check_pairs(read_all(pairs, 3), n, 12, 1, ids);
}

static void invalid_arguments(void) {
    idcwh_pairs* pairs = (idcwh_pairs*)memory;
    INVALID("pairs|null", idcwh_join(&codes, NULL, 1, NULL, NULL));
    INVALID("a|null", idcwh_join(NULL, &codes, 1, NULL, &pairs));
    CHECK(pairs == NULL);
    INVALID("radius|0 to 12|13", idcwh_join(&codes, NULL, bits + 1, NULL, &pairs));
    INVALID("radius|0 to 12|4294967295", idcwh_join(&codes, NULL, (unsigned)-1, NULL, &pairs));
    const idcwh_codes wider = {memory, n, 16}, nowhere = {NULL, n, bits}, widthless = {memory, n, 0};
    const idcwh_codes many = {memory, (size_t)-1 / 4, bits};
    INVALID("b|16 bits|12", idcwh_join(&codes, &wider, 1, NULL, &pairs));
    INVALID("data|null|6", idcwh_join(&nowhere, NULL, 1, NULL, &pairs));
    INVALID("bits|65535|found 0", idcwh_join(&codes, &widthless, 1, NULL, &pairs));
    INVALID("codes", idcwh_join(&many, NULL, 1, NULL, &pairs));
    idcwh_join_options with = {0};
    with.threads = 1025;
    INVALID("threads|1024|1025", idcwh_join(&codes, NULL, 1, &with, &pairs));
    INVALID("threads|1024|1025", idcwh_count_pairs(&codes, NULL, 1, &with, &total));
    CHECK(pairs == NULL);
    INVALID("count|null", idcwh_count_pairs(&codes, NULL, 1, NULL, NULL));
    INVALID("a|null", idcwh_count_pairs(NULL, NULL, 1, NULL, &total));

    INVALID("pairs|null", idcwh_pairs_next(NULL, 1, first, second, distances, &count));
    char text[200];
    INVALID("pairs|null", idcwh_pairs_explain(NULL, text, sizeof text, NULL));
    CHECK(idcwh_join(&codes, NULL, 12, NULL, &pairs) == IDCWH_OK);
    INVALID("capacity|found 0", idcwh_pairs_next(pairs, 0, first, second, distances, &count));
    INVALID("count|null", idcwh_pairs_next(pairs, 1, first, second, distances, NULL));
    INVALID("null", idcwh_pairs_next(pairs, 1, NULL, second, distances, &count));
    INVALID("null", idcwh_pairs_next(pairs, 1, first, NULL, distances, &count));
    INVALID("null", idcwh_pairs_next(pairs, 1, first, second, NULL, &count));
    CHECK(idcwh_pairs_explain(pairs, text, sizeof text, &count) == IDCWH_OK && strlen(text) == count);
    CHECK(strstr(text, "6 codes, 5 distinct") == text);
    CHECK(read_all(pairs, 4) == n * (n - 1) / 2);  // the invalid calls skipped nothing
}

static void too_many_pairs(void) {
    idcwh_pairs* pairs;
    idcwh_join_options with = {0};
    with.max_pairs = 15;
    CHECK(idcwh_join(&codes, NULL, 12, &with, &pairs) == IDCWH_OK && read_all(pairs, 4) == 15);
    with.max_pairs = 14;
    CHECK(idcwh_join(&codes, NULL, 12, &with, &pairs) == IDCWH_OK);
    // After the error the stream does not end as if it were complete.
    for (int i = 0; i < 3; ++i) INVALID("15 pairs|14", idcwh_pairs_next(pairs, most, first, second, distances, &count));
    idcwh_pairs_free(pairs);
    CHECK(idcwh_count_pairs(&codes, NULL, 12, &with, &total) == IDCWH_OK && total == 15);
}

struct request {
    int calls, now;
};

static int requested(void* context) {
    struct request* request = (struct request*)context;
    ++request->calls;
    return request->now;
}

static void interrupts(void) {
    enum { many = 400000 };
    uint8_t* large = (uint8_t*)calloc(many, 8);
    for (uint32_t i = 0, x = 1; i < many; ++i) {
        for (int at = 0; at < 8; ++at) large[8 * i + at] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    }
    struct request request = {0, 1};
    idcwh_join_options with = {.threads = 2, .interrupt = requested, .interrupt_context = &request};
    const idcwh_codes all = {large, many, 64};
    REFUSED(IDCWH_INTERRUPTED, "interrupt", idcwh_count_pairs(&all, NULL, 30, &with, &total));
    CHECK(request.calls == 1);
    request.now = 0;
    idcwh_pairs* pairs;
    CHECK(idcwh_join(&all, NULL, 30, &with, &pairs) == IDCWH_OK);
    CHECK(idcwh_pairs_next(pairs, most, first, second, distances, &count) == IDCWH_OK && count == most);
    request.now = 1;
    int64_t* i = (int64_t*)malloc(most * many * sizeof *i);
    int64_t* j = (int64_t*)malloc(most * many * sizeof *j);
    int32_t* d = (int32_t*)malloc(most * many * sizeof *d);
    REFUSED(IDCWH_INTERRUPTED, "interrupt", idcwh_pairs_next(pairs, most * many, i, j, d, &count));
    request.now = 0;
    REFUSED(IDCWH_INTERRUPTED, "interrupt", idcwh_pairs_next(pairs, 1, i, j, d, &count));
    idcwh_pairs_free(pairs);
    free(large), free(i), free(j), free(d);
}

int main(void) {
    memory_joins();
    clusters();
    snapshot_joins();
    invalid_arguments();
    too_many_pairs();
    interrupts();
    if (failures) printf("%d checks failed\n", failures);
    return failures ? 1 : 0;
}
