// Finds a code among its neighbours, and catches an error thrown inside the library.
#include <idcwh/crc32c.hpp>
#include <idcwh/isa.hpp>
#include <idcwh/search.hpp>
#include <idcwh/version.hpp>

#include <cstdio>

int main() {
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
    std::printf("idcwh %d.%d on %s\n", IDCWH_VERSION_MAJOR, IDCWH_VERSION_MINOR, idcwh::isa_active().c_str());
}
