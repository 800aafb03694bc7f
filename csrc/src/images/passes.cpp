// The order of the weights in memory, and the kernels of both passes in SSE2 and plain C++.
#include "images/passes.hpp"

#include <algorithm>

#if defined(__SSE2__) && !defined(IDCWH_PORTABLE_PASSES)  // the tests define it
#include <emmintrin.h>
#endif

namespace idcwh::images {
namespace {

constexpr int lower_bits = 15;
constexpr std::int32_t half = 1 << (weight_bits - 1);

std::int16_t lower(std::int32_t weight) { return static_cast<std::int16_t>(weight & ((1 << lower_bits) - 1)); }
std::int16_t upper(std::int32_t weight) { return static_cast<std::int16_t>(weight >> lower_bits); }

// A block of Across pairs byte i with byte i + bytes / 2. A pair is two samples of one channel, a whole number of
// pixels apart. Weights come per four pairs: their lower parts, then their upper parts.
constexpr std::size_t block_bytes[2] = {12, 24};    // four pixels, eight pixels
constexpr std::size_t block_weights[2] = {32, 48};  // two fours (of which six pairs count), three fours

#if defined(__SSE2__) && !defined(IDCWH_PORTABLE_PASSES)

__m128i load(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }

// Sums of four lanes, for the lower and the upper parts of the weights.
struct Sums {
    __m128i low = _mm_setzero_si128(), high = _mm_setzero_si128();
    void add(__m128i pairs, __m128i lows, __m128i highs) {
        low = _mm_add_epi32(low, _mm_madd_epi16(pairs, lows));
        high = _mm_add_epi32(high, _mm_madd_epi16(pairs, highs));
    }
    __m128i total() const { return _mm_add_epi32(low, _mm_slli_epi32(high, lower_bits)); }
};

__m128i rounded(__m128i sums) { return _mm_srai_epi32(_mm_add_epi32(sums, _mm_set1_epi32(half)), weight_bits); }

// Computes one pixel of Across. Writes one byte beyond it.
void across(const std::uint8_t* p, const std::int16_t* w, std::uint32_t quarters, std::uint8_t* out) {
    const __m128i zero = _mm_setzero_si128();
    Sums a, b, c;  // for bytes 0 to 3, 4 to 7 and 8 to 11 of a block
    for (; quarters >= 2; quarters -= 2, p += block_bytes[1], w += block_weights[1]) {
        const __m128i upper_half = load(p), lower_half = load(p + block_bytes[1] / 2);
        const __m128i ab = _mm_unpacklo_epi8(upper_half, lower_half), cd = _mm_unpackhi_epi8(upper_half, lower_half);
        a.add(_mm_unpacklo_epi8(ab, zero), load(w), load(w + 8));
        b.add(_mm_unpackhi_epi8(ab, zero), load(w + 16), load(w + 24));
        c.add(_mm_unpacklo_epi8(cd, zero), load(w + 32), load(w + 40));
    }
    if (quarters) {
        const auto eight = [](const std::uint8_t* at) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)); };
        const __m128i ab = _mm_unpacklo_epi8(eight(p), eight(p + block_bytes[0] / 2));
        a.add(_mm_unpacklo_epi8(ab, zero), load(w), load(w + 8));
        b.add(_mm_unpackhi_epi8(ab, zero), load(w + 16), load(w + 24));
    }
    // The lanes are rgbr gbrg brgb: four pixels, which are summed into the first three lanes.
    const __m128i x = a.total(), y = b.total(), z = c.total();
    const __m128i second = _mm_or_si128(_mm_srli_si128(x, 12), _mm_slli_si128(y, 4));
    const __m128i third = _mm_or_si128(_mm_srli_si128(y, 8), _mm_slli_si128(z, 8));
    const __m128i pixel = _mm_add_epi32(_mm_add_epi32(x, second), _mm_add_epi32(third, _mm_srli_si128(z, 4)));
    const __m128i words = _mm_packs_epi32(rounded(pixel), zero);
    const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, zero));
    __builtin_memcpy(out, &bytes, 4);
}

// Computes sixteen bytes of Down.
void down(const std::uint8_t* const* rows, std::uint32_t count, const std::int16_t* w, std::size_t at,
          std::uint8_t* out) {
    const __m128i zero = _mm_setzero_si128();
    Sums sums[4];
    for (std::uint32_t i = 0; i < count; i += 2, w += 4) {
        const __m128i here = load(rows[i] + at), next = load(rows[std::min(i + 1, count - 1)] + at);
        std::int32_t pair[2];
        __builtin_memcpy(pair, w, sizeof pair);
        const __m128i lows = _mm_set1_epi32(pair[0]), highs = _mm_set1_epi32(pair[1]);
        const __m128i first = _mm_unpacklo_epi8(here, next), second = _mm_unpackhi_epi8(here, next);
        sums[0].add(_mm_unpacklo_epi8(first, zero), lows, highs);
        sums[1].add(_mm_unpackhi_epi8(first, zero), lows, highs);
        sums[2].add(_mm_unpacklo_epi8(second, zero), lows, highs);
        sums[3].add(_mm_unpackhi_epi8(second, zero), lows, highs);
    }
    const __m128i left = _mm_packs_epi32(rounded(sums[0].total()), rounded(sums[1].total()));
    const __m128i right = _mm_packs_epi32(rounded(sums[2].total()), rounded(sums[3].total()));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + at), _mm_packus_epi16(left, right));
}

#else

std::uint8_t rounded(std::uint32_t low, std::uint32_t high) {
    const auto sum = static_cast<std::int32_t>(low + (high << lower_bits) + half);
    return static_cast<std::uint8_t>(std::clamp(sum >> weight_bits, 0, 255));
}

std::uint32_t product(std::uint8_t sample, std::int16_t weight) { return static_cast<std::uint32_t>(sample * weight); }

// Adds a block of `pairs` pairs of Across to the sums of its lanes.
template <std::size_t pairs>
void block(const std::uint8_t* p, const std::int16_t* w, std::uint32_t* low, std::uint32_t* high) {
    for (std::size_t i = 0; i < pairs; ++i) {
        const std::int16_t* four = w + i / 4 * 16 + i % 4 * 2;
        low[i] += product(p[i], four[0]) + product(p[i + pairs], four[1]);
        high[i] += product(p[i], four[8]) + product(p[i + pairs], four[9]);
    }
}

void across(const std::uint8_t* p, const std::int16_t* w, std::uint32_t quarters, std::uint8_t* out) {
    std::uint32_t low[12] = {}, high[12] = {};
    for (; quarters >= 2; quarters -= 2, p += block_bytes[1], w += block_weights[1]) block<12>(p, w, low, high);
    if (quarters) block<6>(p, w, low, high);
    for (int c = 0; c < 3; ++c)
        out[c] =
            rounded(low[c] + low[c + 3] + low[c + 6] + low[c + 9], high[c] + high[c + 3] + high[c + 6] + high[c + 9]);
}

void down(const std::uint8_t* const* rows, std::uint32_t count, const std::int16_t* w, std::size_t at,
          std::uint8_t* out) {
    std::uint32_t low[16] = {}, high[16] = {};
    for (std::uint32_t i = 0; i < count; i += 2, w += 4) {
        const std::uint8_t *here = rows[i] + at, *next = rows[std::min(i + 1, count - 1)] + at;
        for (int x = 0; x < 16; ++x) {
            low[x] += product(here[x], w[0]) + product(next[x], w[1]);
            high[x] += product(here[x], w[2]) + product(next[x], w[3]);
        }
    }
    for (int x = 0; x < 16; ++x) out[at + x] = rounded(low[x], high[x]);
}

#endif

}  // namespace

Across::Across(const Axis& axis) {
    first_ = axis.windows.front().first;
    columns_ = axis.windows.back().first + axis.windows.back().count - first_;
    windows_.reserve(axis.windows.size());
    for (const auto& window : axis.windows) {
        const std::uint32_t quarters = (window.count + 3) / 4;
        windows_.push_back({3 * (window.first - first_), weights_.size(), quarters});
        const auto weight = [&](std::size_t pixel) {
            return pixel < window.count ? axis.weights[window.weights + pixel] : 0;
        };
        for (std::uint32_t quarter = 0; quarter < quarters; quarter += 2) {
            const bool eight = quarter + 2 <= quarters;
            const std::size_t pairs = block_bytes[eight] / 2, begin = weights_.size();
            weights_.resize(begin + block_weights[eight]);
            for (std::size_t i = 0; i < pairs; ++i) {
                std::int16_t* four = &weights_[begin + i / 4 * 16 + i % 4 * 2];
                const std::int32_t here = weight(4 * quarter + i / 3), far = weight(4 * quarter + (i + pairs) / 3);
                four[0] = lower(here), four[1] = lower(far), four[8] = upper(here), four[9] = upper(far);
            }
        }
    }
}

void Across::operator()(const std::uint8_t* in, std::uint8_t* out) const noexcept {
    for (const Window& window : windows_) {
        across(in + window.at, weights_.data() + window.weights, window.quarters, out);
        out += 3;
    }
}

Down::Down(const Axis& axis) {
    windows_.reserve(axis.windows.size());
    for (const auto& window : axis.windows) {
        windows_.push_back({window.count, weights_.size()});
        for (std::uint32_t i = 0; i < window.count; i += 2) {
            const std::int32_t here = axis.weights[window.weights + i];
            const std::int32_t next = i + 1 < window.count ? axis.weights[window.weights + i + 1] : 0;
            weights_.insert(weights_.end(), {lower(here), lower(next), upper(here), upper(next)});
        }
    }
}

void Down::operator()(std::size_t i, const std::uint8_t* const* rows, std::size_t bytes,
                      std::uint8_t* out) const noexcept {
    const Window& window = windows_[i];
    for (std::size_t at = 0; at < bytes; at += 16) down(rows, window.count, weights_.data() + window.weights, at, out);
}

}  // namespace idcwh::images
