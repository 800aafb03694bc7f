// Row by row comparison, one machine word at a time. The portable kernels consist of it, and the others use it for the
// last rows. Included after IDCWH_TARGET, with IDCWH_POPCOUNT64 defined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/kernels/kernels.hpp"
#include "cpu/kernels/target.hpp"

namespace idcwh::kernels {
namespace {

IDCWH_INLINE std::uint64_t load_word(const std::uint8_t* p) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    return word;
}

// Loads the 1 to 7 bytes at p and no byte after them; the other bytes are zero. Uses overlapping loads, because a copy
// of, say, three bytes would go through memory and wait for it.
IDCWH_INLINE std::uint64_t load_tail(const std::uint8_t* p, std::size_t bytes) {
    if (bytes < 4) {
        const std::size_t middle = bytes / 2, last = bytes - 1;
        return p[0] | std::uint64_t{p[middle]} << 8 * middle | std::uint64_t{p[last]} << 8 * last;
    }
    std::uint32_t low, high;
    std::memcpy(&low, p, 4);
    if (bytes == 4) return low;
    std::memcpy(&high, p + bytes - 4, 4);
    return low | std::uint64_t{high} << 8 * (bytes - 4);
}

IDCWH_INLINE std::uint32_t row_distance(const std::uint8_t* a, const std::uint8_t* b, std::size_t bytes) {
    std::uint32_t sum = 0;
    std::size_t i = 0;
    for (; i + 8 <= bytes; i += 8) sum += IDCWH_POPCOUNT64(load_word(a + i) ^ load_word(b + i));
    if (i < bytes) sum += IDCWH_POPCOUNT64(load_tail(a + i, bytes - i) ^ load_tail(b + i, bytes - i));
    return sum;
}

// Scans the rows [first, rows). Branch-free, because hits can be frequent; it may write to the slot after the last hit.
IDCWH_INLINE std::size_t scan_rows(const std::uint8_t* codes, std::size_t first, std::size_t rows, std::size_t bytes,
                                   const std::uint8_t* query, std::uint32_t limit, Hit* hits, std::size_t count) {
    for (std::size_t row = first; row < rows; ++row) {
        const std::uint32_t distance = row_distance(codes + row * bytes, query, bytes);
        hits[count] = {static_cast<std::uint16_t>(row), static_cast<std::uint16_t>(distance)};
        count += distance <= limit;
    }
    return count;
}

IDCWH_INLINE void distance_rows(const std::uint8_t* codes, std::size_t first, std::size_t rows, std::size_t bytes,
                                const std::uint8_t* query, std::uint16_t* out) {
    for (std::size_t row = first; row < rows; ++row)
        out[row] = static_cast<std::uint16_t>(row_distance(codes + row * bytes, query, bytes));
}

// Calls body with the width, as a constant for common widths, so that the compiler unrolls the loop over a row.
template <class Body>
IDCWH_INLINE auto with_constant_width(std::size_t bytes, Body body) {
    switch (bytes) {
        case 1: return body(std::integral_constant<std::size_t, 1>{});
        case 2: return body(std::integral_constant<std::size_t, 2>{});
        case 3: return body(std::integral_constant<std::size_t, 3>{});
        case 4: return body(std::integral_constant<std::size_t, 4>{});
        case 6: return body(std::integral_constant<std::size_t, 6>{});
        case 8: return body(std::integral_constant<std::size_t, 8>{});
        case 12: return body(std::integral_constant<std::size_t, 12>{});
        case 16: return body(std::integral_constant<std::size_t, 16>{});
        case 32: return body(std::integral_constant<std::size_t, 32>{});
        default: return body(bytes);
    }
}

}  // namespace
}  // namespace idcwh::kernels
