// Preprocess: checks, the box of an image that is resampled, and the two passes row by row in little memory.
#include <idcwh/preprocess.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/fail.hpp"
#include "base/json.hpp"
#include "images/axis.hpp"
#include "images/passes.hpp"

namespace idcwh {
namespace {

constexpr const char* names[] = {"bilinear", "bicubic", "lanczos", "box"};  // in the order of Interpolation

unsigned whole_number(const json::Value& value, const std::string& name) {
    const bool digits =
        value.kind == json::Value::Kind::number && value.text.find_first_not_of("0123456789") == value.text.npos;
    if (!digits)
        fail("preprocess: " + name + " must be a whole number, not " +
             (value.text.empty() ? value.kind_name() : value.text.substr(0, 40)));
    return value.text.size() > 9 ? 999999999 : static_cast<unsigned>(std::stoul(value.text));
}

// Returns the number of bytes from a row to the next.
std::ptrdiff_t stride_of(const Image& image) {
    const auto size = std::to_string(image.width) + " x " + std::to_string(image.height);
    if (!image.width || !image.height) fail("an image of " + size + ": expected one with pixels");
    if (image.width > Preprocess::max_pixels / image.height)
        fail("an image of " + size + ": expected at most " + std::to_string(Preprocess::max_pixels) + " pixels");
    if (!image.data) fail({.path = "image.data", .found = "null", .expected = "a valid pointer"});
    const std::size_t row = 3 * image.width;
    if (!image.stride) return static_cast<std::ptrdiff_t>(row);
    const auto given = static_cast<std::size_t>(image.stride), step = image.stride < 0 ? 0 - given : given;
    if (image.height > 1 && step < row)
        fail("an image " + std::to_string(image.width) + " wide has rows of " + std::to_string(row) +
             " bytes: expected a stride of at least that, not " + std::to_string(image.stride));
    if (step > std::numeric_limits<std::ptrdiff_t>::max() / image.height)
        fail("a stride of " + std::to_string(image.stride) + " bytes leads " + size + " pixels out of memory");
    return image.stride;
}

// Rows of an image after the first pass, as many as one window of the second pass needs. Each is computed once, in
// order.
class ImageRows {
public:
    ImageRows(const images::Axis& across, const images::Axis& down, const Image& image)
        : pass_(across),
          image_(image),
          row_(3 * across.windows.size() + images::padding),
          next_(down.windows.front().first),
          input_(3 * pass_.columns() + images::padding) {
        for (const auto& window : down.windows) kept_ = std::max<std::size_t>(kept_, window.count);
        rows_.resize(kept_ * row_);
        pointers_.resize(kept_);
    }

    const std::uint8_t* const* window(const images::Axis::Window& window) {
        next_ = std::max<std::size_t>(next_, window.first);
        for (; next_ < window.first + window.count; ++next_) {
            const std::uint8_t* from = image_.data + static_cast<std::ptrdiff_t>(next_) * image_.stride;
            std::memcpy(input_.data(), from + 3 * pass_.first(), 3 * pass_.columns());
            pass_(input_.data(), at(next_));
        }
        for (std::uint32_t i = 0; i < window.count; ++i) pointers_[i] = at(window.first + i);
        return pointers_.data();
    }

private:
    std::uint8_t* at(std::size_t row) { return rows_.data() + row % kept_ * row_; }

    const images::Across pass_;
    const Image& image_;
    const std::size_t row_;  // bytes
    std::size_t next_, kept_ = 1;
    std::vector<std::uint8_t> input_, rows_;
    std::vector<const std::uint8_t*> pointers_;
};

}  // namespace

Interpolation interpolation_of(std::string_view name) {
    const auto* found = std::find(std::begin(names), std::end(names), name);
    if (found == std::end(names))
        fail("preprocess: interpolation must be one of bilinear, bicubic, lanczos, box, not " +
             json::quoted(name.substr(0, 40)));
    return static_cast<Interpolation>(found - std::begin(names));
}

Preprocess::Preprocess(unsigned resize, unsigned crop, Interpolation interpolation)
    : resize_(resize), crop_(crop), interpolation_(interpolation) {
    if (crop < 1 || crop > resize || resize > 8192)
        fail("preprocess: expected 1 <= crop <= resize <= 8192, not " + std::to_string(crop) + " and " +
             std::to_string(resize));
    if (interpolation < Interpolation::bilinear || interpolation > Interpolation::box)
        fail("preprocess: unknown interpolation " + std::to_string(static_cast<int>(interpolation)));
}

Preprocess Preprocess::from_json(std::string_view text) {
    json::Value given;
    try {
        given = json::parse(text);
    } catch (const Error& error) {
        fail("preprocess: " + std::string(error.what()));
    }
    if (given.kind != json::Value::Kind::object)
        fail(std::string("preprocess: expected an object, not ") + given.kind_name());
    auto found = given.names;
    std::sort(found.begin(), found.end());
    if (found != std::vector<std::string>{"crop", "interpolation", "resize"}) {
        std::string list;
        for (const auto& name : found) list += (list.empty() ? "" : ", ") + json::quoted(name.substr(0, 40));
        fail("preprocess: expected the fields crop, interpolation and resize, not [" + list.substr(0, 400) + "]");
    }
    const json::Value& interpolation = *given.find("interpolation");
    if (interpolation.kind != json::Value::Kind::string)
        fail(std::string("preprocess: interpolation must be a string, not ") + interpolation.kind_name());
    return Preprocess(whole_number(*given.find("resize"), "resize"), whole_number(*given.find("crop"), "crop"),
                      interpolation_of(interpolation.text));
}

std::string Preprocess::to_json() const {
    return "{\"resize\": " + std::to_string(resize_) + ", \"crop\": " + std::to_string(crop_) +
           ", \"interpolation\": \"" + names[static_cast<int>(interpolation_)] + "\"}";
}

// The arithmetic is in double precision up to the box, which is float as Pillow receives it: images._resample.
void Preprocess::operator()(const Image& given, std::uint8_t* pixels) const {
    Image image = given;
    image.stride = stride_of(given);
    if (!pixels) fail({.path = "pixels", .found = "null", .expected = "a valid pointer"});
    const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
    const double side = std::min(width, height) * crop_ / resize_;
    const double left = (width - side) / 2;
    double top = (height - side) / 2;
    if (height > width) {  // from here on, rows beyond the reach of the filter are left out
        const double margin = 4 * std::ceil(std::max(side / crop_, 1.0));  // wider than the widest filter
        const double first = std::max(std::floor(top) - margin, 0.0);
        const double last = std::min(std::floor(top + side) + margin, height);
        image.data += static_cast<std::ptrdiff_t>(first) * image.stride;
        image.height = static_cast<std::size_t>(last - first);
        top -= first;
    }
    const auto axis = [&](std::size_t size, double begin) {
        return images::axis(size, static_cast<float>(begin), static_cast<float>(begin + side), crop_, interpolation_);
    };
    const images::Axis down = axis(image.height, top);
    ImageRows rows(axis(image.width, left), down, image);
    const images::Down pass(down);
    const std::size_t bytes = std::size_t{3} * crop_;
    std::vector<std::uint8_t> row(bytes + images::padding);
    for (unsigned y = 0; y < crop_; ++y) {
        pass(y, rows.window(down.windows[y]), bytes, row.data());
        std::memcpy(pixels + y * bytes, row.data(), bytes);
    }
}

std::vector<std::uint8_t> Preprocess::operator()(const Image& image) const {
    std::vector<std::uint8_t> pixels(bytes());
    (*this)(image, pixels.data());
    return pixels;
}

}  // namespace idcwh
