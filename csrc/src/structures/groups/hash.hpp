// A hash of codes of any width, for finding equal codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace idcwh {

inline std::uint64_t load_word(const std::uint8_t* from, std::size_t bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, bytes);
    return word;
}

// Mixes the bits of a word by the last step of MurmurHash3. Every bit changes every bit of the result.
inline std::uint64_t mix(std::uint64_t word) {
    word = (word ^ word >> 33) * 0xff51afd7ed558ccdu;
    word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53u;
    return word ^ word >> 33;
}

// Returns the hash of a code. Width: its bytes, as a constant (std::integral_constant) or a number.
template <class Width>
std::uint64_t hash_code(const std::uint8_t* code, Width bytes) {
    std::uint64_t hash = 0;
    std::size_t at = 0;
    for (; at + 8 < bytes; at += 8) hash = mix(hash ^ load_word(code + at, 8)) + 0x9e3779b97f4a7c15u;
    return mix(hash ^ load_word(code + at, bytes - at));
}

// Calls body with the width as a constant for frequent widths. Copies and comparisons are then a few instructions.
template <class Body>
void with_width(std::size_t bytes, Body body) {
    switch (bytes) {
        case 1: return body(std::integral_constant<std::size_t, 1>{});
        case 2: return body(std::integral_constant<std::size_t, 2>{});
        case 3: return body(std::integral_constant<std::size_t, 3>{});
        case 4: return body(std::integral_constant<std::size_t, 4>{});
        case 6: return body(std::integral_constant<std::size_t, 6>{});
        case 8: return body(std::integral_constant<std::size_t, 8>{});
        case 16: return body(std::integral_constant<std::size_t, 16>{});
        default: return body(bytes);
    }
}

}  // namespace idcwh
