// Checks of the padding bits.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/fail.hpp"
#include "scan/plan.hpp"

namespace idcwh {

std::size_t first_padded(const Codes& codes) {
    const unsigned used = codes.bits % 8;
    if (used == 0) return codes.size;
    const std::size_t bytes = code_bytes(codes.bits);
    const auto padding = static_cast<std::uint8_t>(0xff << used);
    constexpr std::size_t portion = 4096;  // rows without a branch, so that the loop vectorises
    for (std::size_t row = 0; row < codes.size; row += portion) {
        const std::size_t end = std::min(codes.size, row + portion);
        std::uint8_t seen = 0;
        for (std::size_t i = row; i < end; ++i) seen |= codes.data[i * bytes + bytes - 1];
        if (!(seen & padding)) continue;
        while (!(codes.data[row * bytes + bytes - 1] & padding)) ++row;
        return row;
    }
    return codes.size;
}

void fail_padding(const char* name, std::size_t row, unsigned bits) {
    fail({.path = name,
          .found = "nonzero padding bits in row " + std::to_string(row),
          .expected = "zeros after the " + std::to_string(bits) + " bits of each code"});
}

void check_padding(const Codes& codes, const char* name) {
    const std::size_t row = first_padded(codes);
    if (row < codes.size) fail_padding(name, row, codes.bits);
}

bool padding_is_zero(const Codes& codes) {
    check(codes, nullptr, 0, {});
    return first_padded(codes) == codes.size;
}

}  // namespace idcwh
