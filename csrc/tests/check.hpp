// The few words the tests need: CHECK says where and what, and the test goes on; finish() is what main returns.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

namespace check {

inline std::atomic<int> failures{0};  // tests may fail on any thread

inline void fail(const char* file, int line, const char* what) {
    if (++failures <= 20) std::printf("%s:%d: not true: %s\n", file, line, what);
}

inline int finish() {
    if (failures) std::printf("%d checks failed\n", failures.load());
    return failures ? 1 : 0;
}

constexpr int skipped = 77;

inline std::vector<std::uint8_t> random_bytes(std::size_t size, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::uint8_t> bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    return bytes;
}

// Codes with zero padding.
inline std::vector<std::uint8_t> random_codes(std::size_t n, unsigned bits, std::uint32_t seed) {
    const std::size_t bytes = (bits + 7) / 8;
    auto codes = random_bytes(n * bytes, seed);
    if (bits % 8)
        for (std::size_t i = 0; i < n; ++i)
            codes[i * bytes + bytes - 1] &= static_cast<std::uint8_t>((1 << bits % 8) - 1);
    return codes;
}

// The oracle: one bit after the other.
inline std::uint32_t distance(const std::uint8_t* a, const std::uint8_t* b, std::size_t bytes) {
    std::uint32_t sum = 0;
    for (std::size_t bit = 0; bit < 8 * bytes; ++bit) sum += (a[bit / 8] ^ b[bit / 8]) >> bit % 8 & 1;
    return sum;
}

}  // namespace check

#define CHECK(condition)                                               \
    do {                                                               \
        if (!(condition)) check::fail(__FILE__, __LINE__, #condition); \
    } while (false)
