// See sha256.hpp.
#include "base/sha256.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace idcwh {
namespace {

using State = std::array<std::uint32_t, 8>;

constexpr std::uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

std::uint32_t big_endian(const unsigned char* p) {
    return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}

void block(State& state, const unsigned char* bytes) {
    std::uint32_t w[64];
    for (int i = 0; i < 16; ++i) w[i] = big_endian(bytes + std::size_t{4} * i);
    for (int i = 16; i < 64; ++i) {
        const std::uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) + w[i - 7] +
               (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (int i = 0; i < 64; ++i) {
        const std::uint32_t first =
            h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
        const std::uint32_t second =
            (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const State added = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state[i] += added[i];
}

}  // namespace

void Sha256::update(std::string_view bytes) {
    const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
    std::size_t left = bytes.size();
    const std::size_t kept = size_ % 64;
    size_ += left;
    if (kept) {
        const std::size_t taken = std::min(64 - kept, left);
        std::memcpy(rest_ + kept, data, taken);
        data += taken, left -= taken;
        if (kept + taken < 64) return;
        block(state_, rest_);
    }
    for (; left >= 64; left -= 64, data += 64) block(state_, data);
    if (left) std::memcpy(rest_, data, left);
}

std::string Sha256::hex() const {
    State state = state_;
    const std::size_t kept = size_ % 64;
    unsigned char end[128] = {};
    std::memcpy(end, rest_, kept);
    end[kept] = 0x80;
    const std::size_t size = kept < 56 ? 64 : 128;
    const std::uint64_t bits = 8 * size_;
    for (int i = 0; i < 8; ++i) end[size - 1 - static_cast<std::size_t>(i)] = static_cast<unsigned char>(bits >> 8 * i);
    for (std::size_t at = 0; at < size; at += 64) block(state, end + at);

    constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (const std::uint32_t word : state)
        for (int shift = 28; shift >= 0; shift -= 4) text += digits[word >> shift & 15];
    return text;
}

}  // namespace idcwh
