// The convolution of an antialiased resampling. Pillow's bytes are reproduced, so the order of operations is part of
// the contract. A compiler must not fuse or reorder them (-ffp-contract=off, no -ffast-math).
#include "images/axis.hpp"

#include <algorithm>
#include <cmath>

#if defined(__FAST_MATH__)
#error "-ffast-math changes the pixels: compile this file without it"
#endif

namespace idcwh::images {
namespace {

constexpr double pi = 3.14159265358979323846;

double box(double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }

double bilinear(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

double bicubic(double x) {
    constexpr double a = -0.5;
    x = std::abs(x);
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
    return 0.0;
}

double sinc(double x) {
    if (x == 0.0) return 1.0;
    x *= pi;
    return std::sin(x) / x;
}

double lanczos(double x) { return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0; }

std::int64_t nearest(double x) { return static_cast<std::int64_t>(std::floor(x + 0.5)); }

struct Filter {
    double (*at)(double);
    double support;  // the filter is zero beyond
};

Filter filter_of(Interpolation interpolation) {
    switch (interpolation) {
        case Interpolation::box: return {box, 0.5};
        case Interpolation::bicubic: return {bicubic, 2.0};
        case Interpolation::lanczos: return {lanczos, 3.0};
        case Interpolation::bilinear: break;
    }
    return {bilinear, 1.0};
}

}  // namespace

Axis axis(std::size_t size, float begin, float end, unsigned out, Interpolation interpolation) {
    const Filter filter = filter_of(interpolation);
    const double scale = static_cast<double>(end - begin) / out;
    const double stretch = std::max(scale, 1.0);  // enlarging does not narrow the filter
    const double support = filter.support * stretch, shrink = 1.0 / stretch;
    const auto last = static_cast<std::int64_t>(size);

    Axis result;
    result.windows.reserve(out);
    std::vector<double> real;
    for (unsigned i = 0; i < out; ++i) {
        const double center = begin + (i + 0.5) * scale;
        const auto from = std::max<std::int64_t>(nearest(center - support), 0);
        const auto to = std::min(nearest(center + support), last);
        real.clear();
        double sum = 0.0;
        for (std::int64_t x = from; x < to; ++x) {
            real.push_back(filter.at((static_cast<double>(x) - center + 0.5) * shrink));
            sum += real.back();
        }
        result.windows.push_back(
            {static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(real.size()), result.weights.size()});
        for (double weight : real) {
            if (sum != 0.0) weight /= sum;
            weight *= 1 << weight_bits;
            result.weights.push_back(static_cast<std::int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5));
        }
    }
    return result;
}

}  // namespace idcwh::images
