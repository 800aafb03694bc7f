// Preprocess: turns a decoded image into the pixels that a model expects, byte for byte as in Python (Pillow).
//
//     const idcwh::Preprocess preprocess(240, 224);
//     std::vector<std::uint8_t> pixels(preprocess.bytes());  // [224][224][3]
//     preprocess({rgb, width, height}, pixels.data());
//
// The caller decodes the image: first frame, EXIF orientation applied, 8-bit RGB, transparent pixels blended over
// white. docs/cpp.md lists these rules. Other decoding yields other codes.
//
// Library: idcwh_encoder (target idcwh::encoder, -lidcwh_encoder).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "error.hpp"
#include "export.hpp"

namespace idcwh {

// A view of a decoded image in the caller's memory: `height` rows of `width` pixels, each of the bytes red, green,
// blue.
struct Image {
    const std::uint8_t* data = nullptr;  // first byte of the top row
    std::size_t width = 0, height = 0;
    // Bytes from one row to the row below. Negative for images stored bottom-up. 0 means 3 * width.
    std::ptrdiff_t stride = 0;
};

// The filters of Pillow of the same names, always antialiased.
enum class Interpolation { bilinear, bicubic, lanczos, box };

// Returns the filter of this name, such as "bilinear". Throws Error(invalid_argument) for an unknown name.
IDCWH_API Interpolation interpolation_of(std::string_view name);

// Resizes the shorter side to `resize` and crops the centre square of side `crop`, in one step. The square covers
// crop / resize of the shorter side. Thread-safe.
class IDCWH_API Preprocess {
public:
    // The largest number of pixels of an image, as in Python.
    static constexpr std::size_t max_pixels = 178956970;

    // Throws Error(invalid_argument) unless 1 <= crop <= resize <= 8192.
    explicit Preprocess(unsigned resize = 240, unsigned crop = 224,
                        Interpolation interpolation = Interpolation::bilinear);

    // Parses the JSON object that models and databases contain (idcwh_preprocess in model.onnx):
    //     {"resize": 240, "crop": 224, "interpolation": "bilinear"}
    // Throws Error(invalid_argument) for any other text. An unknown field is an error because it may change pixels.
    static Preprocess from_json(std::string_view json);
    std::string to_json() const;

    unsigned resize() const { return resize_; }
    unsigned crop() const { return crop_; }
    Interpolation interpolation() const { return interpolation_; }
    std::size_t bytes() const { return std::size_t{3} * crop_ * crop_; }  // size of the pixels

    // Writes bytes() bytes, uint8 [crop][crop][3]. Needs less than 5 MB of additional memory, for an image of any size.
    // Throws Error(invalid_argument) for an image without pixels, above max_pixels, or with overlapping rows.
    void operator()(const Image& image, std::uint8_t* pixels) const;
    std::vector<std::uint8_t> operator()(const Image& image) const;

private:
    unsigned resize_, crop_;
    Interpolation interpolation_;
};

}  // namespace idcwh
