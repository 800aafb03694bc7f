// Preprocess: what it is made of, which box of a picture is resampled, and the two passes row by row, in little memory.
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

// Bytes from a row to the one below.
std::ptrdiff_t stride_of(const Picture& picture) {
    const auto size = std::to_string(picture.width) + " x " + std::to_string(picture.height);
    if (!picture.width || !picture.height) fail("a picture of " + size + ": expected one with pixels");
    if (picture.width > Preprocess::max_pixels / picture.height)
        fail("a picture of " + size + ": expected at most " + std::to_string(Preprocess::max_pixels) + " pixels");
    if (!picture.data) fail("the data of a picture of " + size + " is null; a valid pointer was expected");
    const std::size_t row = 3 * picture.width;
    if (!picture.stride) return static_cast<std::ptrdiff_t>(row);
    const auto given = static_cast<std::size_t>(picture.stride), step = picture.stride < 0 ? 0 - given : given;
    if (picture.height > 1 && step < row)
        fail("a picture " + std::to_string(picture.width) + " wide has rows of " + std::to_string(row) +
             " bytes: expected a stride of at least that, not " + std::to_string(picture.stride));
    if (step > std::numeric_limits<std::ptrdiff_t>::max() / picture.height)
        fail("a stride of " + std::to_string(picture.stride) + " bytes leads " + size + " pixels out of memory");
    return picture.stride;
}

// Rows of an image that went through the first pass, as many as one window of the second needs, each made once and in
// order.
class ImageRows {
public:
    ImageRows(const images::Axis& across, const images::Axis& down, const Picture& picture)
        : pass_(across),
          picture_(picture),
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
            const std::uint8_t* from = picture_.data + static_cast<std::ptrdiff_t>(next_) * picture_.stride;
            std::memcpy(input_.data(), from + 3 * pass_.first(), 3 * pass_.columns());
            pass_(input_.data(), at(next_));
        }
        for (std::uint32_t i = 0; i < window.count; ++i) pointers_[i] = at(window.first + i);
        return pointers_.data();
    }

private:
    std::uint8_t* at(std::size_t row) { return rows_.data() + row % kept_ * row_; }

    const images::Across pass_;
    const Picture& picture_;
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

// In double precision up to the box, which is single, as it is on its way from Python into Pillow: images._resample.
void Preprocess::operator()(const Picture& given, std::uint8_t* pixels) const {
    Picture picture = given;
    picture.stride = stride_of(given);
    if (!pixels) fail("pixels is null; a valid pointer was expected");
    const auto width = static_cast<double>(picture.width), height = static_cast<double>(picture.height);
    const double side = std::min(width, height) * crop_ / resize_;
    const double left = (width - side) / 2;
    double top = (height - side) / 2;
    if (height > width) {  // from here on the rows that cannot matter were never there
        const double margin = 4 * std::ceil(std::max(side / crop_, 1.0));  // more than the widest filter reaches
        const double first = std::max(std::floor(top) - margin, 0.0);
        const double last = std::min(std::floor(top + side) + margin, height);
        picture.data += static_cast<std::ptrdiff_t>(first) * picture.stride;
        picture.height = static_cast<std::size_t>(last - first);
        top -= first;
    }
    const auto axis = [&](std::size_t size, double begin) {
        return images::axis(size, static_cast<float>(begin), static_cast<float>(begin + side), crop_, interpolation_);
    };
    const images::Axis down = axis(picture.height, top);
    ImageRows rows(axis(picture.width, left), down, picture);
    const images::Down pass(down);
    const std::size_t bytes = std::size_t{3} * crop_;
    std::vector<std::uint8_t> row(bytes + images::padding);
    for (unsigned y = 0; y < crop_; ++y) {
        pass(y, rows.window(down.windows[y]), bytes, row.data());
        std::memcpy(pixels + y * bytes, row.data(), bytes);
    }
}

std::vector<std::uint8_t> Preprocess::operator()(const Picture& picture) const {
    std::vector<std::uint8_t> pixels(bytes());
    (*this)(picture, pixels.data());
    return pixels;
}

}  // namespace idcwh
