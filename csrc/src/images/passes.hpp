// The two passes of a resampling over rows of 8-bit RGB: Across changes the width of a row, Down combines rows.
// Sums are exact, because they are computed modulo 2^32. They are then rounded and clipped to a byte. A weight of 22
// bits is split into an upper part and its lower 15 bits. Two 16-bit multiplications then replace one of 32 bits. One
// instruction (pmaddwd, on every x86-64) multiplies and adds eight of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "images/axis.hpp"

namespace idcwh::images {

constexpr std::size_t padding = 16;  // bytes after a row that kernels read or write

class Across {
public:
    explicit Across(const Axis& axis);
    // Returns the first pixel of the input row that is needed; `columns` pixels are.
    std::size_t first() const { return first_; }
    std::size_t columns() const { return columns_; }
    // Computes a pixel per window. in: the needed part of the row. Both rows have `padding` bytes after their ends.
    void operator()(const std::uint8_t* in, std::uint8_t* out) const noexcept;

private:
    struct Window {
        std::size_t at;          // byte of the row
        std::size_t weights;     // index of its first block of weights
        std::uint32_t quarters;  // blocks of four pixels; two make a block of eight, and an odd one remains
    };
    std::size_t first_, columns_;
    std::vector<Window> windows_;
    std::vector<std::int16_t> weights_;
};

class Down {
public:
    explicit Down(const Axis& axis);
    // Computes output row i. rows: those of its window, `bytes` long. The padding of rows and of out is used.
    void operator()(std::size_t i, const std::uint8_t* const* rows, std::size_t bytes,
                    std::uint8_t* out) const noexcept;

private:
    struct Window {
        std::uint32_t count;
        std::size_t weights;  // index of the weights per pair of rows: two lower parts, two upper parts
    };
    std::vector<Window> windows_;
    std::vector<std::int16_t> weights_;
};

}  // namespace idcwh::images
