// The oracle of an index: rows in the order they were added, and distances bit by bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace fuzz {

// Stops the fuzzer with a finding if the condition is false.
inline void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "not true: %s\n", what);
    std::abort();
}
#define REQUIRE(condition) fuzz::require(condition, #condition)

struct Model {
    unsigned bits = 0;
    std::int64_t next = 0;  // the id of the next row without an explicit id
    std::vector<std::int64_t> ids;
    std::vector<std::uint8_t> codes;

    std::size_t bytes() const { return (bits + 7) / 8; }
    std::size_t size() const { return ids.size(); }
    std::size_t row_of(std::int64_t id) const {
        return static_cast<std::size_t>(std::find(ids.begin(), ids.end(), id) - ids.begin());
    }
    bool holds(std::int64_t id) const { return row_of(id) < size(); }
    void add(std::int64_t id, const std::uint8_t* code) {
        ids.push_back(id);
        codes.insert(codes.end(), code, code + bytes());
        next = std::max(next, id + 1);
    }
    void remove(std::int64_t id) {
        const auto row = static_cast<std::ptrdiff_t>(row_of(id)), width = static_cast<std::ptrdiff_t>(bytes());
        ids.erase(ids.begin() + row);
        codes.erase(codes.begin() + row * width, codes.begin() + (row + 1) * width);
    }
};

using Ranking = std::vector<std::pair<std::int32_t, std::int64_t>>;

inline Ranking ranking(const Model& model, const std::uint8_t* query, const std::vector<std::uint8_t>& eligible) {
    Ranking result;
    for (std::size_t row = 0; row < model.size(); ++row) {
        if (!eligible[row]) continue;
        std::int32_t distance = 0;
        for (std::size_t j = 0; j < model.bytes(); ++j)
            for (unsigned x = model.codes[row * model.bytes() + j] ^ query[j]; x; x &= x - 1) ++distance;
        result.emplace_back(distance, model.ids[row]);
    }
    std::sort(result.begin(), result.end());
    return result;
}

inline void require_equal(const Ranking& expected, std::size_t count, const std::int32_t* distances,
                          const std::int64_t* ids) {
    REQUIRE(count <= expected.size());
    for (std::size_t i = 0; i < count; ++i) {
        REQUIRE(expected[i].first == distances[i]);
        REQUIRE(expected[i].second == ids[i]);
    }
}

// Returns the number of rows within the radius.
inline std::size_t within(const Ranking& expected, std::int64_t radius) {
    std::size_t count = 0;
    while (count < expected.size() && expected[count].first <= radius) ++count;
    return count;
}

}  // namespace fuzz
