// The two passes of a resampling, over rows of 8-bit RGB: Across makes a row narrower or wider, Down makes one row of
// several. Sums are exact (whole numbers modulo 2^32, of which the true sum is one), rounded and clipped to a byte.
//
// A weight of 22 bits is its upper part times 2^15 plus its lower 15 bits, so that two 16-bit multiplications do it,
// and one instruction (pmaddwd, on every x86-64) multiplies and adds eight of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "images/axis.hpp"

namespace idcwh::images {

constexpr std::size_t padding = 16;  // bytes behind a row that are read or written, and mean nothing

class Across {
public:
    explicit Across(const Axis& axis);
    // The part of an input row that is needed: `columns` pixels from the pixel `first` on.
    std::size_t first() const { return first_; }
    std::size_t columns() const { return columns_; }
    // in: that part, out: a pixel for each window. Behind both there are `padding` bytes.
    void operator()(const std::uint8_t* in, std::uint8_t* out) const noexcept;

private:
    struct Window {
        std::size_t at;          // byte of the row
        std::size_t weights;     // where its blocks of weights begin
        std::uint32_t quarters;  // blocks of four pixels; two make a block of eight, the last may be alone
    };
    std::size_t first_, columns_;
    std::vector<Window> windows_;
    std::vector<std::int16_t> weights_;
};

class Down {
public:
    explicit Down(const Axis& axis);
    // rows: those of the window of output row i, each `bytes` long; their padding and that of out is touched.
    void operator()(std::size_t i, const std::uint8_t* const* rows, std::size_t bytes,
                    std::uint8_t* out) const noexcept;

private:
    struct Window {
        std::uint32_t count;
        std::size_t weights;  // of pairs of rows: two lower parts, two upper parts
    };
    std::vector<Window> windows_;
    std::vector<std::int16_t> weights_;
};

}  // namespace idcwh::images
