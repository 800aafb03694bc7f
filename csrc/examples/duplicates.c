// Finds the near-duplicates among 100,000 random 64-bit codes, of which each tenth is a copy with two other bits.
#include <idcwh/idcwh.h>
#include <stdio.h>
#include <stdlib.h>

enum { n = 100000, bytes = 8, radius = 3, block = 4096 };

static int fail(void) { return fprintf(stderr, "error: %s\n", idcwh_last_error()), 1; }

int main(void) {
    static uint8_t memory[n * bytes];
    static int64_t first[block], second[block], clusters[n];
    static int32_t distances[block];
    srand(1);
    for (size_t i = 0; i < n * bytes; ++i) memory[i] = (uint8_t)(rand() >> 7);
    for (size_t row = 10; row < n; row += 10) {
        for (size_t at = 0; at < bytes; ++at) memory[row * bytes + at] = memory[(row - 1) * bytes + at];
        memory[row * bytes] ^= 1, memory[row * bytes + 5] ^= 16;
    }

    const idcwh_codes codes = {memory, n, 8 * bytes};
    const idcwh_join_options options = {.max_pairs = 1000000};
    idcwh_pairs* pairs;
    if (idcwh_join(&codes, NULL, radius, &options, &pairs)) return fail();  // not 0: it failed
    char plan[200];
    if (idcwh_pairs_explain(pairs, plan, sizeof plan, NULL)) return fail();
    puts(plan);
    size_t count, total = 0;
    do {
        if (idcwh_pairs_next(pairs, block, first, second, distances, &count)) return fail();
        for (size_t i = 0; i < count && total + i < 3; ++i)
            printf("rows %lld and %lld, distance %d\n", (long long)first[i], (long long)second[i], (int)distances[i]);
        total += count;
    } while (count == block);
    idcwh_pairs_free(pairs);
    printf("%zu pairs\n", total);

    if (idcwh_cluster(&codes, radius, IDCWH_CLUSTERS_COMPONENTS, NULL, clusters, &count)) return fail();
    printf("%zu clusters\n", count);
    return total < n / 10 - 1 || count > n - total;
}
