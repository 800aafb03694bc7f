// padding_is_zero().
#include <idcwh/search.hpp>

#include "scan/plan.hpp"

namespace idcwh {

bool padding_is_zero(const Codes& codes) {
    check(codes, nullptr, 0, {});
    const unsigned used = codes.bits % 8;
    if (used == 0) return true;
    const std::size_t bytes = code_bytes(codes.bits);
    const auto padding = static_cast<std::uint8_t>(0xff << used);
    constexpr std::size_t portion = 4096;  // rows without a branch, so that the loop vectorises
    for (std::size_t row = 0; row < codes.size; row += portion) {
        const std::size_t end = codes.size - row < portion ? codes.size : row + portion;
        std::uint8_t seen = 0;
        for (std::size_t i = row; i < end; ++i) seen |= codes.data[i * bytes + bytes - 1];
        if (seen & padding) return false;
    }
    return true;
}

}  // namespace idcwh
