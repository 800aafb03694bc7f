// Searches in memory and in a database, and catches errors thrown inside the library.
#include <idcwh/crc32c.hpp>
#include <idcwh/database.hpp>
#include <idcwh/isa.hpp>
#include <idcwh/search.hpp>
#include <idcwh/version.hpp>

#include <cstdio>
#include <string>
#include <string_view>

int main(int, char** argv) {
    const std::uint8_t memory[4] = {0x00, 0x0f, 0x03, 0x01}, query = 0x00;
    const idcwh::Codes codes{memory, 4, 8};
    std::int32_t distances[2];
    std::int64_t ids[2];
    if (idcwh::topk(codes, &query, 1, 2, distances, ids) != 2) return 1;
    if (ids[0] != 0 || ids[1] != 3 || distances[1] != 1) return 2;
    if (idcwh::crc32c("123456789", 9) != 0xE3069283u) return 3;
    try {
        idcwh::isa_force("abacus");
        return 4;
    } catch (const idcwh::Error& error) {
        if (error.code() != idcwh::ErrorCode::invalid_argument) return 5;
    }

    const std::string path = std::string(argv[0]) + ".codes.bin";
    const std::string_view keys[4] = {"a", "b", "c", "d"};
    idcwh::NewItems items{memory, 4};
    items.keys = keys;
    idcwh::Database::create(path, 8, "{}", true).add(items);
    const auto view = idcwh::Database::open(path).snapshot();
    if (view.topk(&query, 1, 2, distances, ids) != 2 || view.key(ids[1]) != "d") return 6;
    std::remove(path.c_str());
    try {
        idcwh::Database::open(path);
        return 7;
    } catch (const idcwh::SystemError& error) {
        if (error.path() != path) return 8;
    }
    std::printf("idcwh %d.%d on %s\n", IDCWH_VERSION_MAJOR, IDCWH_VERSION_MINOR, idcwh::isa_active().c_str());
}
