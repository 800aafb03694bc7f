// Fields of bits inside packed codes, for multi-index hashing.
#pragma once

#include <idcwh/search.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace idcwh::multi {

inline constexpr unsigned max_substring_bits = 26;  // 2^26 buckets at most

constexpr std::uint64_t low_mask(unsigned bits) {
    return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

// Counts the bits set. Without -mpopcnt std::popcount is a call, too expensive for short loops without a kernel.
inline unsigned ones(std::uint64_t x) {
    x -= (x >> 1) & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return static_cast<unsigned>(x * 0x0101010101010101u >> 56);
}

// Reads bits [offset, offset + width) of codes, where bit 0 is the lowest and offset % 8 + width <= 64.
class Field {
public:
    Field(unsigned bits, unsigned offset, unsigned width)
        : stride_(code_bytes(bits)), byte_(offset / 8), shift_(offset % 8), mask_(low_mask(width)) {}

    std::uint64_t of_row(const Codes& codes, std::size_t row) const {
        const std::size_t at = row * stride_ + byte_;
        if (at + 8 <= codes.size * stride_) return from(codes.data + at, 8);
        return from(codes.data + at, codes.size * stride_ - at);
    }
    std::uint64_t of_code(const std::uint8_t* code) const {
        const std::size_t there = stride_ - byte_;
        return from(code + byte_, there < 8 ? there : 8);
    }

private:
    std::uint64_t from(const std::uint8_t* at, std::size_t there) const {
        std::uint64_t word = 0;
        if (there == 8)
            std::memcpy(&word, at, 8);
        else
            std::memcpy(&word, at, there);
        return (word >> shift_) & mask_;
    }

    std::size_t stride_, byte_;
    unsigned shift_;
    std::uint64_t mask_;
};

// Returns n over k, for n up to max_substring_bits: how many values of n bits differ from one in k bits.
inline double choose(unsigned n, unsigned k) {
    static constexpr auto table = [] {
        std::array<std::array<std::uint32_t, max_substring_bits + 2>, max_substring_bits + 1> c{};
        for (unsigned i = 0; i <= max_substring_bits; ++i) {
            c[i][0] = 1;
            for (unsigned j = 1; j <= i; ++j) c[i][j] = c[i - 1][j - 1] + c[i - 1][j];
        }
        return c;
    }();
    return k > n ? 0 : table[n][k];
}

}  // namespace idcwh::multi
