// One axis of an antialiased resampling: the input samples and the weights of each output sample.
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
        std::size_t weights;         // index of the first weight
    };
    std::vector<Window> windows;  // one per output sample; `first` and `first + count` never decrease
    std::vector<std::int32_t> weights;
};

// Returns the windows that resample [begin, end) of `size` samples to `out` samples. The box is float, as in Pillow.
Axis axis(std::size_t size, float begin, float end, unsigned out, Interpolation interpolation);

}  // namespace idcwh::images
