// Finds a code among its neighbours, and sees an error come back as a status.
#include <idcwh/idcwh.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    const uint8_t memory[4] = {0x00, 0x0f, 0x03, 0x01}, query = 0x00;
    idcwh_codes codes = {memory, 4, 8};
    int32_t distances[2];
    int64_t ids[2];
    size_t kept = 0;
    if (idcwh_topk(&codes, &query, 1, 2, NULL, distances, ids, &kept) != IDCWH_OK || kept != 2) return 1;
    if (ids[0] != 0 || ids[1] != 3 || distances[1] != 1) return 2;
    codes.bits = 0;
    if (idcwh_topk(&codes, &query, 1, 2, NULL, distances, ids, &kept) != IDCWH_INVALID_ARGUMENT) return 3;
    if (!strstr(idcwh_last_error(), "bits must be 1 to 65535, not 0")) return 4;
    printf("idcwh %s on %s, from C\n", idcwh_version(), idcwh_isa());
    return 0;
}
