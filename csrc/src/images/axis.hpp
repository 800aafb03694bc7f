// One axis of an antialiased resampling: which input samples make an output sample, and with which weights.
#pragma once

#include <idcwh/preprocess.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace idcwh::images {

constexpr int weight_bits = 22;  // weights are whole multiples of 2^-22

struct Axis {
    struct Window {
        std::uint32_t first, count;  // input samples [first, first + count)
        std::size_t weights;         // where its weights begin
    };
    std::vector<Window> windows;  // one an output sample; neither their beginnings nor their ends ever go back
    std::vector<std::int32_t> weights;
};

// Resamples [begin, end) of `size` samples to `out` samples. The box is in single precision, as in Pillow.
Axis axis(std::size_t size, float begin, float end, unsigned out, Interpolation interpolation);

}  // namespace idcwh::images
