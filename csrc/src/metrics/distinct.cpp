// An open-addressing hash table of row numbers, so that no row is copied.
#include "metrics/distinct.hpp"

#include <algorithm>
#include <cstring>

namespace idcwh::metrics {
namespace {

std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
    state = (state ^ word) * 0x9e3779b97f4a7c15u;
    return state ^ state >> 32;
}

std::uint64_t hash(const std::uint8_t* row, std::size_t bytes) {
    std::uint64_t state = 0x243f6a8885a308d3u;
    std::size_t at = 0;
    for (; at + 8 <= bytes; at += 8) {
        std::uint64_t word;
        std::memcpy(&word, row + at, 8);
        state = mix(state, word);
    }
    if (at < bytes) {
        std::uint64_t word = 0;
        std::memcpy(&word, row + at, bytes - at);
        state = mix(state, word);
    }
    return mix(state, bytes);
}

}  // namespace

Distinct distinct_rows(const std::uint8_t* rows, std::size_t n, std::size_t bytes) {
    Distinct result;
    result.number.resize(n);
    std::vector<std::uint32_t> slots(1024);  // number + 1; 0: free
    const auto row = [&](std::size_t i) { return rows + i * bytes; };
    for (std::size_t i = 0; i < n; ++i) {
        if (2 * result.size() >= slots.size()) {
            std::vector<std::uint32_t> larger(4 * slots.size());
            for (std::size_t number = 0; number < result.size(); ++number) {
                std::size_t slot = hash(row(result.first[number]), bytes) & (larger.size() - 1);
                while (larger[slot]) slot = (slot + 1) & (larger.size() - 1);
                larger[slot] = static_cast<std::uint32_t>(number + 1);
            }
            slots.swap(larger);
        }
        std::size_t slot = hash(row(i), bytes) & (slots.size() - 1);
        while (slots[slot] && bytes && std::memcmp(row(result.first[slots[slot] - 1]), row(i), bytes) != 0)
            slot = (slot + 1) & (slots.size() - 1);
        if (!slots[slot]) {
            result.first.push_back(static_cast<std::uint32_t>(i));
            slots[slot] = static_cast<std::uint32_t>(result.size());
        }
        result.number[i] = slots[slot] - 1;
    }
    return result;
}

}  // namespace idcwh::metrics
