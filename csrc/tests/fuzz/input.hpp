// The bytes of the fuzzer, read as numbers. Past the end all numbers are zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fuzz {

class Input {
public:
    Input(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}

    bool empty() const { return left_ == 0; }
    std::uint8_t byte() {
        if (left_ == 0) return 0;
        --left_;
        return *at_++;
    }
    unsigned below(unsigned end) { return (byte() | static_cast<unsigned>(byte()) << 8) % end; }
    bool coin() { return byte() & 1; }

private:
    const std::uint8_t* at_;
    std::size_t left_;
};

// Returns n codes without padding bits. A few bytes of input make many codes. Each code is one of a few centers with
// some bits flipped, so equal codes and ties are frequent.
inline std::vector<std::uint8_t> codes(Input& input, std::size_t n, unsigned bits) {
    const std::size_t bytes = (bits + 7) / 8;
    std::vector<std::uint8_t> out(n * bytes);
    const unsigned centers = 1 + input.below(5), flips = input.below(4), style = input.below(4);
    const bool bytewise = style == 1 && n <= 20;
    std::uint64_t random = input.byte() * 0x9e3779b97f4a7c15u + 1;
    const auto next = [&] { return (random = random * 6364136223846793005u + 1442695040888963407u) >> 33; };
    for (std::size_t i = 0; i < n; ++i) {
        std::uint8_t* code = out.data() + i * bytes;
        const std::uint64_t center = style == 0 ? next() : next() % centers;
        for (std::size_t j = 0; j < bytes; ++j)
            code[j] = bytewise ? static_cast<std::uint8_t>(input.byte())
                               : static_cast<std::uint8_t>((center + 1) * (2 * j + 0x6d) * 0x9e3779b97f4a7c15u >> 56);
        for (unsigned flip = 0; flip < flips; ++flip) {
            const std::size_t bit = next() % bits;
            code[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
        }
        if (bits % 8) code[bytes - 1] &= static_cast<std::uint8_t>((1u << bits % 8) - 1);
    }
    return out;
}

}  // namespace fuzz
