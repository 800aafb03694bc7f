// Searches in memory and in a database, and receives errors as a status.
#include <idcwh/idcwh.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
    const uint8_t memory[4] = {0x00, 0x0f, 0x03, 0x01}, query = 0x00;
    idcwh_codes codes = {memory, 4, 8};
    int32_t distances[2];
    int64_t ids[2];
    size_t kept = 0;
    if (idcwh_topk(&codes, &query, 1, 2, NULL, distances, ids, &kept) != IDCWH_OK || kept != 2) return 1;
    if (ids[0] != 0 || ids[1] != 3 || distances[1] != 1) return 2;
    codes.bits = 0;
    if (idcwh_topk(&codes, &query, 1, 2, NULL, distances, ids, &kept) != IDCWH_INVALID_ARGUMENT) return 3;
    if (!strstr(idcwh_last_error(), "bits: is invalid (found 0, expected 1 to 65535)")) return 4;

    const char* const keys[4] = {"a", "b", "c", "d"};
    const idcwh_items items = {.codes = memory, .size = 4, .keys = keys};
    idcwh_database* database;
    idcwh_snapshot* snapshot;
    char path[1000], key[8];
    snprintf(path, sizeof path, "%s.codes.bin", argv[argc - 1]);
    if (idcwh_database_create(path, 8, NULL, 1, &database) != IDCWH_OK) return 5;
    if (idcwh_database_add(database, &items, NULL) != IDCWH_OK) return 6;
    if (idcwh_database_snapshot(database, &snapshot) != IDCWH_OK) return 7;
    idcwh_database_free(database);
    if (idcwh_snapshot_topk(snapshot, &query, 1, 2, NULL, distances, ids, &kept) != IDCWH_OK || kept != 2) return 8;
    if (idcwh_snapshot_key(snapshot, ids[1], key, sizeof key, NULL) != IDCWH_OK || strcmp(key, "d") != 0) return 9;
    idcwh_snapshot_free(snapshot);
    remove(path);
    if (idcwh_database_open(path, 0, &database) != IDCWH_SYSTEM || !idcwh_last_errno()) return 10;
    printf("idcwh %s on %s, from C\n", idcwh_version(), idcwh_isa());
    return 0;
}
