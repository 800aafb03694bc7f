// Direct addressing of short codes: the group of every possible value. A search looks up values in shells of growing
// distance.
#pragma once

#include <idcwh/search.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace idcwh {

class DirectTable {
public:
    static constexpr unsigned most_bits = 20;
    // Returns true if a table is faster than a scan: 16 bits fit the second-level cache, and a larger table needs at
    // least as many rows as entries.
    static bool suits(unsigned bits, std::size_t rows) {
        return bits <= 16 || (bits <= most_bits && rows >= std::size_t{1} << bits);
    }
    static std::size_t memory(unsigned bits) { return sizeof(std::uint32_t) << bits; }

    // Builds a table of distinct codes. Returns null if a padding bit is set, since such a code has no value.
    static std::unique_ptr<DirectTable> build(const Codes& codes);

    // Returns true if the query has a value.
    bool has_value(const std::uint8_t* query) const { return value(query) >> bits_ == 0; }

    // Gives sink.take(row, distance) the codes, nearest first, up to sink.limit(), which may decrease during the
    // search. Returns false if the next shell costs more than a scan of all distinct codes. The sink then has all codes
    // of the shells before it.
    template <class Sink>
    bool search(const std::uint8_t* query, Sink& sink) const {
        const std::uint32_t from = value(query), values = std::uint32_t{1} << bits_;
        std::uint64_t shell = 1;  // values at this distance
        for (std::uint32_t distance = 0; static_cast<std::int32_t>(distance) <= sink.limit(); ++distance) {
            if (distance > bits_) break;
            if (shell > affordable_) return false;
            // All masks of `distance` bits in ascending order: the lowest run of ones moves up by one bit, and the rest
            // of the run moves to the bottom.
            for (std::uint32_t mask = (std::uint32_t{1} << distance) - 1; mask < values;) {
                const std::uint32_t row = rows_[from ^ mask];
                if (row != none) sink.take(row, static_cast<std::int32_t>(distance));
                if (mask == 0) break;
                const std::uint32_t carried = mask + (mask & -mask);
                mask = carried | ((carried ^ mask) >> 2 >> std::countr_zero(mask));
            }
            shell = shell * (bits_ - distance) / (distance + 1);
        }
        return true;
    }

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    std::uint32_t value(const std::uint8_t* code) const {
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < code_bytes(bits_); ++i) value |= static_cast<std::uint32_t>(code[i]) << 8 * i;
        return value;
    }

    unsigned bits_ = 0;
    std::uint64_t affordable_ = 0;
    std::vector<std::uint32_t> rows_;  // [2^bits] row of the code with this value
};

}  // namespace idcwh
