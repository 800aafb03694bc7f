// Image search in one C++ program: idcwh::Encoder computes the code of an image, and idcwh::Database finds its
// neighbours.
//
//     example_image_service MODEL.onnx build CODES.bin FILE ...  creates a database of images
//     example_image_service MODEL.onnx ask CODES.bin [K] < FILE  reads images and prints the K nearest
//                                                                of each: distance, id, key
//     example_image_service MODEL.onnx                           runs a demonstration in memory
//
// Images are binary PPM (P6), which `convert photo.png ppm:-` and ffmpeg write, or JPEG, if the example is compiled
// with libjpeg (-DWITH_JPEG -ljpeg; CMake searches for it). On standard input, a JPEG must be the last image.
//
// A service replaces `read_image` by its own decoder. It must turn images upright like `upright`, because other pixels
// yield other codes. The environment variable IDCWH_ONNXRUNTIME names the library of ONNX Runtime.
#include <idcwh/database.hpp>
#include <idcwh/encoder.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(WITH_JPEG)
#include <csetjmp>

#include <jpeglib.h>

#include <jerror.h>
#endif

namespace {

struct Image {
    std::size_t width, height;
    std::vector<std::uint8_t> rgb;
    idcwh::Image view() const { return {rgb.data(), width, height}; }
};

// Reads a whole number of the header of a PPM, and the one character after it.
std::size_t number(std::FILE* file) {
    int c = std::fgetc(file);
    while (c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '#') {
        if (c == '#')
            while (c != '\n' && c != EOF) c = std::fgetc(file);
        c = std::fgetc(file);
    }
    std::size_t value = 0;
    if (c < '0' || c > '9') throw std::runtime_error("header of the PPM is invalid (expected a number)");
    for (; c >= '0' && c <= '9'; c = std::fgetc(file))
        if ((value = 10 * value + static_cast<std::size_t>(c - '0')) > idcwh::Preprocess::max_pixels)
            throw std::runtime_error("PPM has too many pixels");
    return value;
}

// Reads a PPM, from the byte after "P6" on.
Image read_ppm(std::FILE* file) {
    Image image{number(file), number(file), {}};
    if (number(file) != 255) throw std::runtime_error("PPM is not supported (expected samples of 8 bits)");
    if (!image.width || image.height > idcwh::Preprocess::max_pixels / image.width)
        throw std::runtime_error("PPM has no pixels or too many");
    image.rgb.resize(3 * image.width * image.height);
    if (std::fread(image.rgb.data(), 1, image.rgb.size(), file) != image.rgb.size())
        throw std::runtime_error("PPM is truncated");
    return image;
}

#if defined(WITH_JPEG)
// A decompressor that reports errors by longjmp. By default libjpeg calls exit(), and exceptions must not pass through
// it.
struct Decoder : jpeg_decompress_struct {
    jpeg_error_mgr errors;
    std::jmp_buf failed;
    char message[JMSG_LENGTH_MAX];

    static void fail(j_common_ptr info) {
        auto* decoder = static_cast<Decoder*>(reinterpret_cast<j_decompress_ptr>(info));
        decoder->errors.format_message(info, decoder->message);
        std::longjmp(decoder->failed, 1);
    }
    static void warn(j_common_ptr info, int level) {
        if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) fail(info);  // Python rejects truncated files too
    }
};

// Returns the EXIF orientation, 1 to 8, or 1 if there is none. EXIF is TIFF inside JPEG: a byte order, then a list of
// fields of 12 bytes, each with number, type, count and value.
int orientation(const std::uint8_t* exif, std::size_t size) {
    constexpr std::size_t head = 6;  // "Exif", 0, 0
    if (size < head + 8 || std::memcmp(exif, "Exif\0", head) != 0) return 1;
    exif += head, size -= head;
    const bool big = exif[0] == 'M';
    const auto number = [&](std::size_t at, std::size_t bytes) {
        std::size_t value = 0;
        for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | exif[at + (big ? i : bytes - 1 - i)];
        return value;
    };
    std::size_t field = number(4, 4);
    if (field > size - 2) return 1;
    std::size_t fields = number(field, 2);
    for (field += 2; fields-- && size - field >= 12; field += 12)
        if (number(field, 2) == 0x0112)
            if (const auto value = static_cast<int>(number(field + 8, 2)); value >= 1 && value <= 8) return value;
    return 1;
}

// Returns an image as a viewer shows it. Orientation 2 is mirrored, 3 upside down, 6 and 8 are rotated by 90 degrees.
Image upright(Image from, int orientation) {
    if (orientation == 1) return from;
    const bool sideways = orientation >= 5, right = orientation == 2 || orientation == 3 || orientation >= 7,
               below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    Image to{sideways ? from.height : from.width, sideways ? from.width : from.height, {}};
    to.rgb.resize(from.rgb.size());
    for (std::size_t y = 0, at = 0; y < to.height; ++y)
        for (std::size_t x = 0; x < to.width; ++x, at += 3) {
            std::size_t column = sideways ? y : x, row = sideways ? x : y;
            if (right) column = from.width - 1 - column;
            if (below) row = from.height - 1 - row;
            std::memcpy(&to.rgb[at], &from.rgb[3 * (row * from.width + column)], 3);
        }
    return to;
}

// Decodes a JPEG, and returns false on failure. It has no local objects with destructors, because longjmp skips them.
bool decode(Decoder& info, std::FILE* file, Image& image, int& turned) {
    if (setjmp(info.failed)) return false;
    jpeg_create_decompress(&info);
    jpeg_stdio_src(&info, file);
    jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&info, TRUE);
    for (auto* marker = info.marker_list; marker && turned == 1; marker = marker->next)
        turned = orientation(marker->data, marker->data_length);
    info.out_color_space = JCS_RGB;  // the other settings are the defaults, as in Python
    image.width = info.image_width;
    image.height = info.image_height;
    if (image.height > idcwh::Preprocess::max_pixels / image.width) return true;
    jpeg_start_decompress(&info);
    image.rgb.resize(3 * image.width * image.height);
    while (info.output_scanline < info.output_height) {
        JSAMPROW row = image.rgb.data() + 3 * image.width * info.output_scanline;
        jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    return true;
}

Image read_jpeg(std::FILE* file) {
    Decoder info{};
    info.err = jpeg_std_error(&info.errors);
    info.errors.error_exit = Decoder::fail;
    info.errors.emit_message = Decoder::warn;
    Image image{};
    int turned = 1;
    const bool whole = decode(info, file, image, turned);
    jpeg_destroy_decompress(&info);
    if (!whole) throw std::runtime_error(std::string("JPEG is corrupt: ") + info.message);
    if (image.rgb.empty()) throw std::runtime_error("JPEG has too many pixels");
    return upright(std::move(image), turned);
}
#else
Image read_jpeg(std::FILE*) { throw std::runtime_error("JPEG is not supported; compile with libjpeg"); }
#endif

// Reads the next image. Returns nothing at the end of the file.
std::optional<Image> read_image(std::FILE* file) {
    const int first = std::fgetc(file);
    if (first == EOF) return std::nullopt;
    if (first == 0xff) return std::ungetc(first, file), read_jpeg(file);
    if (first != 'P' || std::fgetc(file) != '6')
        throw std::runtime_error("format is not supported (expected JPEG or binary PPM)");
    return read_ppm(file);
}

// Creates a database. Reports and skips images that cannot be read, and then returns 3.
int build(const idcwh::Encoder& encoder, const char* path, int files, char** names) {
    auto database = idcwh::Database::create(path, encoder.bits(), encoder.manifest(path, "."), true,
                                            idcwh::Database::Durability::on_close);
    std::vector<std::uint8_t> code(encoder.code_bytes());
    int skipped = 0;
    for (int i = 0; i < files; ++i) {
        std::FILE* file = std::fopen(names[i], "rb");
        try {
            const auto image = file ? read_image(file) : std::nullopt;
            if (!image) throw std::runtime_error("is missing or empty");
            encoder.encode(image->view(), code.data());
            idcwh::NewItems items{code.data(), 1};
            const std::string_view key = names[i];
            items.keys = &key;
            database.add(items);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "skipped %s: %s\n", names[i], error.what());
            ++skipped;
        }
        if (file) std::fclose(file);
    }
    database.close();
    return skipped ? 3 : 0;
}

int ask(const idcwh::Encoder& encoder, const char* path, std::size_t k) {
    const auto database = idcwh::Database::open(path);
    const auto view = database.snapshot();
    encoder.check_manifest(view.manifest());  // distances to codes of another model are meaningless
    std::vector<std::uint8_t> code(encoder.code_bytes());
    std::vector<std::int32_t> distances(std::min(k, view.size()));
    std::vector<std::int64_t> ids(distances.size());
    while (const auto image = read_image(stdin)) {
        encoder.encode(image->view(), code.data());
        const std::size_t kept = view.topk(code.data(), 1, k, distances.data(), ids.data());
        for (std::size_t i = 0; i < kept; ++i) {
            const auto key = view.key(ids[i]);
            std::printf("%d %lld %.*s\n", distances[i], static_cast<long long>(ids[i]), static_cast<int>(key.size()),
                        key.data());
        }
        std::printf("\n");  // an empty line ends an answer
        std::fflush(stdout);
    }
    return 0;
}

// Serves requests in parallel: each thread encodes and searches on its own, with random images instead of decoded ones.
// The nearest neighbour of an image is the image itself, at distance 0.
int demonstrate(const idcwh::Encoder& encoder) {
    std::vector<Image> images;
    std::mt19937 random(1);
    for (std::size_t i = 0; i < 40; ++i) {
        Image image{20 + random() % 100, 20 + random() % 100, {}};
        image.rgb.resize(3 * image.width * image.height);
        for (auto& byte : image.rgb) byte = static_cast<std::uint8_t>(random());
        images.push_back(std::move(image));
    }
    std::vector<idcwh::Image> views;
    for (const auto& image : images) views.push_back(image.view());
    std::vector<std::uint8_t> codes(images.size() * encoder.code_bytes());
    encoder.encode(views.data(), views.size(), codes.data());
    idcwh::Index index(encoder.bits());
    index.add(codes.data(), images.size());

    std::atomic<int> answered{0}, wrong{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (std::size_t i = t; i < images.size(); i += 4) {
                std::vector<std::uint8_t> code(encoder.code_bytes());
                encoder.encode(images[i].view(), code.data());
                std::int32_t distance = -1;
                std::int64_t id = -1;
                index.snapshot().topk(code.data(), 1, 1, &distance, &id);
                const auto equal =
                    std::memcmp(code.data(), codes.data() + static_cast<std::size_t>(id) * code.size(), code.size());
                if (distance != 0 || equal != 0) ++wrong;
                ++answered;
            }
        });
    for (auto& thread : threads) thread.join();
    std::printf("%d answers (%d wrong), %u bits, ONNX Runtime %s on %s (%s)\n", answered.load(), wrong.load(),
                encoder.bits(), encoder.runtime().c_str(), encoder.device() == idcwh::Device::cuda ? "cuda" : "cpu",
                encoder.why().c_str());
    return wrong || answered != 40;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 2 ? argv[2] : "";
    if (argc < 2 || argc == 3 || (argc > 3 && what != "build" && what != "ask")) {
        std::fprintf(stderr, "usage: %s MODEL.onnx [build CODES.bin FILE ... | ask CODES.bin [K]]\n", argv[0]);
        return 2;
    }
    try {
        idcwh::EncoderOptions options;
        options.threads = 1;  // requests run in parallel (docs/cpp.md)
        const idcwh::Encoder encoder(argv[1], options);
        if (what == "build") return build(encoder, argv[3], argc - 4, argv + 4);
        if (what == "ask") return ask(encoder, argv[3], argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 10);
        return demonstrate(encoder);
    } catch (const idcwh::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        const bool no_runtime = error.code() == idcwh::ErrorCode::unsupported && !std::getenv("IDCWH_ONNXRUNTIME");
        return no_runtime && argc == 2 ? 77 : 1;  // 77: skipped, for CTest
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
