// Preprocess: how a decoded image becomes the pixels that a model sees, byte for byte as in Python (Pillow).
//
//     const auto preprocess = idcwh::Preprocess::from_json(R"({"resize": 240, "crop": 224, "interpolation":
//     "bilinear"})"); preprocess({rgb, width, height}, pixels);              // uint8 [224][224][3]
//
// Decoding is the caller's: the first frame, upright (EXIF), 8-bit RGB, transparency laid over white. docs/cpp.md has
// the rules one by one; other pixels give other codes.
//
// In the library idcwh_encoder (target idcwh::encoder, -lidcwh_encoder).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "error.hpp"
#include "export.hpp"

namespace idcwh {

// A decoded image in the caller's memory: height rows of width pixels, a pixel is the bytes red, green, blue.
struct Image {
    const std::uint8_t* data = nullptr;  // the first byte of the upper row
    std::size_t width = 0, height = 0;
    std::ptrdiff_t stride =
        0;  // bytes from a row to the one below, negative for an image stored from below; 0: 3 * width
};

enum class Interpolation { bilinear, bicubic, lanczos, box };  // always antialiased

IDCWH_API Interpolation interpolation_of(std::string_view name);  // "bilinear", ...; Error(invalid_argument)

// The centred square whose side is crop / resize of the shorter side, resampled to crop x crop: the shorter side scaled
// to `resize` and the centre cut out, in one step. Any number of threads may use one at the same time.
class IDCWH_API Preprocess {
public:
    // More pixels than this are refused, as they are in Python.
    static constexpr std::size_t max_pixels = 178956970;

    // Error(invalid_argument) unless 1 <= crop <= resize <= 8192.
    explicit Preprocess(unsigned resize = 240, unsigned crop = 224,
                        Interpolation interpolation = Interpolation::bilinear);
    // The dictionary that models and databases carry (idcwh_preprocess in model.onnx). Error(invalid_argument) for
    // anything else, a field that is not known included: it might change pixels in a way unknown here.
    static Preprocess from_json(std::string_view json);
    std::string to_json() const;

    unsigned resize() const { return resize_; }
    unsigned crop() const { return crop_; }
    Interpolation interpolation() const { return interpolation_; }
    std::size_t bytes() const { return std::size_t{3} * crop_ * crop_; }  // of the pixels

    // Writes bytes() bytes, uint8 [crop][crop][3]. Memory beyond that: less than 5 MB, whatever the image's size.
    // Error(invalid_argument) for an image without pixels, with more than max_pixels, or with rows that overlap.
    void operator()(const Image& image, std::uint8_t* pixels) const;
    std::vector<std::uint8_t> operator()(const Image& image) const;

private:
    unsigned resize_, crop_;
    Interpolation interpolation_;
};

}  // namespace idcwh
