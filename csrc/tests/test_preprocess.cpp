// Preprocess compared with frozen digests of Pillow's pixels and with plain sums. Also covers invalid arguments.
//
// tests/search/test_cpp_preprocess.py compares with Pillow itself, on thousands of images.
#include <idcwh/preprocess.hpp>

#include <algorithm>
#include <string>
#include <thread>

#include "base/sha256.hpp"
#include "check.hpp"
#include "images/axis.hpp"
#include "images/passes.hpp"

using idcwh::Error;
using idcwh::Image;
using idcwh::Interpolation;
using idcwh::Preprocess;

namespace {

using Bytes = std::vector<std::uint8_t>;

std::string digest(const Bytes& bytes) {
    return idcwh::sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).substr(0, 16);
}

// The images are check::random_bytes(3 * width * height, line number from 1). The digests are by Pillow 13.0 through
// images.to_pixels.
const struct {
    std::size_t width, height;
    unsigned resize, crop;
    Interpolation interpolation;
    const char* digest;
} frozen[] = {
    {500, 375, 240, 224, Interpolation::bilinear, "66fab1e664ddfdbf"},
    {375, 500, 240, 224, Interpolation::bilinear, "b9ab3f10971ad6ab"},
    {500, 375, 240, 224, Interpolation::bicubic, "926013dc24463fd5"},
    {375, 500, 256, 224, Interpolation::lanczos, "a4fe458149e2a4de"},
    {640, 480, 72, 64, Interpolation::box, "9ba634f4bcb60d4f"},
    {1, 1, 240, 224, Interpolation::bilinear, "4f979894995dbbb4"},
    {1, 3000, 64, 60, Interpolation::bicubic, "f5094be95c84e60d"},
    {3000, 1, 64, 60, Interpolation::lanczos, "d981270db8ed6986"},
    {3, 2000, 40, 32, Interpolation::bilinear, "79e143ad424a8282"},
    {32, 32, 32, 32, Interpolation::lanczos, "956e2fd08ac20f12"},
    {32, 32, 240, 224, Interpolation::bicubic, "b2658f0954223149"},
    {33, 31, 48, 37, Interpolation::lanczos, "83218f7aedb84a3b"},
    {1200, 900, 7, 3, Interpolation::bilinear, "3da695b72213c06e"},
    {2000, 1500, 1, 1, Interpolation::lanczos, "4977021028c4a74c"},
    {97, 89, 300, 299, Interpolation::box, "ec3c01cabf651dd8"},
    {1000, 1100, 224, 224, Interpolation::bilinear, "21f6c00c46f74ef6"},
};

TEST("pixels equal the frozen digests of Pillow") {
    std::uint32_t seed = 0;
    for (const auto& line : frozen) {
        const Bytes image = check::random_bytes(3 * line.width * line.height, ++seed);
        const Preprocess preprocess(line.resize, line.crop, line.interpolation);
        CHECK(digest(preprocess({image.data(), line.width, line.height})) == line.digest);
    }
}

// The same sums, one pixel after another in 64 bits.
TEST("each pass equals a sum in 64 bits") {
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        const std::size_t width = 1 + random() % (round % 3 ? 60 : 700), out = 1 + random() % 50;
        const auto how = static_cast<Interpolation>(random() % 4);
        const auto begin = static_cast<float>(width) * static_cast<float>(random() % 100) / 200;
        const auto axis = idcwh::images::axis(width, begin, static_cast<float>(width), static_cast<unsigned>(out), how);
        const auto sum = [&](std::size_t i, const auto& sample) {
            std::int64_t total = 1 << 21;
            for (std::uint32_t t = 0; t < axis.windows[i].count; ++t)
                total += std::int64_t{sample(axis.windows[i].first + t)} * axis.weights[axis.windows[i].weights + t];
            return static_cast<std::uint8_t>(std::clamp<std::int64_t>(total >> 22, 0, 255));
        };

        const idcwh::images::Across across(axis);
        Bytes row = check::random_bytes(3 * width, random());
        if (round % 4 == 0)
            for (auto& byte : row) byte = byte < 128 ? 0 : 255;  // for the largest sums
        Bytes in(3 * across.columns() + idcwh::images::padding, 0xee), pixels_out(3 * out + idcwh::images::padding);
        std::copy_n(row.begin() + static_cast<std::ptrdiff_t>(3 * across.first()), 3 * across.columns(), in.begin());
        across(in.data(), pixels_out.data());
        for (std::size_t i = 0; i < 3 * out; ++i)
            CHECK(pixels_out[i] == sum(i / 3, [&](std::size_t x) { return row[3 * x + i % 3]; }));

        const idcwh::images::Down down(axis);
        const std::size_t bytes = 1 + random() % 100;
        std::vector<Bytes> rows(width);
        for (auto& one : rows) one = check::random_bytes(bytes + idcwh::images::padding, random());
        for (std::size_t i = 0; i < out; ++i) {
            std::vector<const std::uint8_t*> window;
            for (std::uint32_t t = 0; t < axis.windows[i].count; ++t)
                window.push_back(rows[axis.windows[i].first + t].data());
            Bytes line(bytes + idcwh::images::padding);
            down(i, window.data(), bytes, line.data());
            for (std::size_t x = 0; x < bytes; ++x) CHECK(line[x] == sum(i, [&](std::size_t y) { return rows[y][x]; }));
        }
    }
}

// Rows may be apart or in reverse order. No byte between them is read.
TEST("rows with any stride give the same pixels") {
    const std::size_t width = 50, height = 70;
    const Bytes image = check::random_bytes(3 * width * height, 3);
    const Preprocess preprocess(40, 32);
    const Bytes expected = preprocess({image.data(), width, height});
    for (const std::ptrdiff_t stride : {150, 151, 200, -150, -163}) {
        const auto step = static_cast<std::size_t>(std::abs(stride));
        Bytes apart(step * (height - 1) + 3 * width, 0xaa);
        for (std::size_t y = 0; y < height; ++y)
            std::copy_n(image.begin() + static_cast<std::ptrdiff_t>(3 * width * y), 3 * width,
                        apart.begin() + static_cast<std::ptrdiff_t>(step * (stride < 0 ? height - 1 - y : y)));
        const std::uint8_t* top = apart.data() + (stride < 0 ? step * (height - 1) : 0);
        CHECK(preprocess({top, width, height, stride}) == expected);
    }
    Bytes out(preprocess.bytes() + 1, 0x55);
    preprocess({image.data(), width, height}, out.data());
    CHECK(out.back() == 0x55);
}

template <class Body>
std::string refusal(Body body) {
    try {
        body();
        return "";
    } catch (const Error& error) {
        CHECK(error.code() == idcwh::ErrorCode::invalid_argument);
        return error.what();
    }
}

TEST("images and sizes that are invalid raise") {
    const std::uint8_t pixel[3] = {1, 2, 3};
    const Preprocess preprocess(4, 4);
    Bytes out(preprocess.bytes());
    const auto given = [&](Image image) { return refusal([&] { preprocess(image, out.data()); }); };
    CHECK(given({pixel, 1, 1}).empty());
    CHECK(out[0] == 1);
    CHECK(out[47] == 3);
    CHECK(given({pixel, 0, 1}) == "an image of 0 x 1: expected one with pixels");
    CHECK(!given({pixel, 1, 0}).empty());
    CHECK(!given({nullptr, 1, 1}).empty());
    // Sizes whose product or number of bytes does not fit std::size_t.
    for (const unsigned shift : {33u, 32u, 2u, 0u}) {
        const auto size =
            static_cast<std::size_t>(std::min(~std::uint64_t{0} >> shift, std::uint64_t{~std::size_t{0}}));
        CHECK(!given({pixel, size, size}).empty());
        CHECK(!given({pixel, size, 1}).empty());
        CHECK(!given({pixel, 1, size}).empty());
    }
    CHECK(given({pixel, 178956970 / 2 + 1, 2}).find("expected at most 178956970 pixels") != std::string::npos);
    CHECK(!given({pixel, 2, 2, 5}).empty());
    CHECK(!given({pixel, 2, 2, -5}).empty());
    CHECK(!given({pixel, 1, 3, PTRDIFF_MAX}).empty());
    CHECK(!given({pixel, 1, 3, PTRDIFF_MIN}).empty());
    CHECK(!refusal([&] { preprocess({pixel, 1, 1}, nullptr); }).empty());

    CHECK(!refusal([] { Preprocess(10, 0); }).empty());
    CHECK(!refusal([] { Preprocess(10, 11); }).empty());
    CHECK(!refusal([] { Preprocess(8193, 1); }).empty());
    CHECK(refusal([] { Preprocess(8192, 8192); }).empty());
    CHECK(!refusal([] { Preprocess(10, 10, static_cast<Interpolation>(4)); }).empty());
    CHECK(!refusal([] { Preprocess(10, 10, static_cast<Interpolation>(-1)); }).empty());
}

TEST("preprocessing survives JSON") {
    const auto preprocess = Preprocess::from_json(R"({"crop": 224, "interpolation": "bicubic", "resize": 256})");
    CHECK(preprocess.resize() == 256);
    CHECK(preprocess.crop() == 224);
    CHECK(preprocess.interpolation() == Interpolation::bicubic);
    CHECK(preprocess.to_json() == R"({"resize": 256, "crop": 224, "interpolation": "bicubic"})");
    for (const auto how : {Interpolation::bilinear, Interpolation::bicubic, Interpolation::lanczos, Interpolation::box})
        CHECK(Preprocess::from_json(Preprocess(9, 8, how).to_json()).interpolation() == how);
    for (const char* text : {"",
                             "null",
                             "[]",
                             "{}",
                             R"({"resize": 240, "crop": 224})",
                             R"({"resize": 240, "crop": 224, "interpolation": "bilinear", "antialias": true})",
                             R"({"resize": 240, "crop": 224, "Interpolation": "bilinear"})",
                             R"({"resize": 240, "crop": 224, "interpolation": "nearest"})",
                             R"({"resize": 240, "crop": 224, "interpolation": "Bilinear"})",
                             R"({"resize": 240, "crop": 224, "interpolation": 1})",
                             R"({"resize": 240.0, "crop": 224, "interpolation": "bilinear"})",
                             R"({"resize": "240", "crop": 224, "interpolation": "bilinear"})",
                             R"({"resize": true, "crop": 224, "interpolation": "bilinear"})",
                             R"({"resize": 240, "crop": -1, "interpolation": "bilinear"})",
                             R"({"resize": 240, "crop": 0, "interpolation": "bilinear"})",
                             R"({"resize": 240, "crop": 241, "interpolation": "bilinear"})",
                             R"({"resize": 4294967536, "crop": 224, "interpolation": "bilinear"})",
                             R"({"resize": 99999999999999999999999, "crop": 224, "interpolation": "bilinear"})",
                             R"({"resize": 240, "crop": 224, "crop": 224, "interpolation": "bilinear"})",
                             R"({"resize": 240, "crop": 224, "interpolation": "bilinear"} x)"}) {
        const std::string why = refusal([&] { Preprocess::from_json(text); });
        CHECK(why.starts_with("preprocess: "));
    }
}

TEST("threads share one preprocessing") {
    const Bytes image = check::random_bytes(std::size_t{3} * 200 * 100, 5);
    const Preprocess preprocess(64, 60);
    const Bytes expected = preprocess({image.data(), 200, 100});
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i)
        all.emplace_back([&] {
            for (int round = 0; round < 20; ++round) CHECK(preprocess({image.data(), 200, 100}) == expected);
        });
    for (auto& thread : all) thread.join();
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
