// Encoder on a linear model with whole numbers, compared with a loop: codes, logits, batches, threads and errors.
//
//     test_encoder models/linear12.onnx     made by tests/search/test_encoder.py's model(12), weights as below
#include <idcwh/encoder.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include "base/sha256.hpp"
#include "check.hpp"
#include "database_model.hpp"

using idcwh::Device;
using idcwh::Encoder;
using idcwh::EncoderOptions;
using idcwh::Error;
using idcwh::ErrorCode;

namespace {

constexpr std::size_t side = 8, bytes = 3 * side * side, bits = 12;

std::string path;  // path of the model

EncoderOptions on_cpu(unsigned threads = 1) {
    EncoderOptions options;
    options.device = Device::cpu;
    options.threads = threads;
    return options;
}

float logit(const std::uint8_t* pixels, std::size_t bit) {
    int sum = 0;
    for (std::size_t j = 0; j < bytes; ++j) sum += (pixels[j] - 128) * (static_cast<int>((7 * j + 5 * bit) % 11) - 5);
    return static_cast<float>(sum);
}

TEST("codes and logits equal those of a loop") {
    for (const unsigned threads : {1u, 3u}) {
        const Encoder encoder(path, on_cpu(threads));
        CHECK(encoder.bits() == bits);
        CHECK(encoder.code_bytes() == 2);
        CHECK(encoder.preprocess().crop() == side);
        CHECK(encoder.classes() == std::vector<std::string>({"chat",
                                                             "Stra\xc3\x9f"
                                                             "e"}));
        CHECK(encoder.device() == Device::cpu);
        CHECK(encoder.why() == "requested");
        CHECK(!encoder.runtime().empty());
        CHECK(encoder.path() == path);
        CHECK(encoder.fingerprint() == "222f477730ce18b59fc0a9f943ab4321e77776a6923b1b41b2a15398940afad5");
        CHECK(encoder.metadata("idcwh_method") == R"({"name": "idcwh"})");
        CHECK(!encoder.metadata("nothing"));
        for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 33u}) {
            const auto pixels = check::random_bytes(n * bytes, static_cast<std::uint32_t>(n + 1));
            std::vector<std::uint8_t> codes(2 * n + 1, 0x77), alone(2 * n);
            std::vector<float> logits(bits * n + 1, 0.5f);
            encoder.encode(pixels.data(), n, codes.data(), logits.data());
            encoder.encode(pixels.data(), n, alone.data());
            CHECK(std::equal(alone.begin(), alone.end(), codes.begin()));
            CHECK(codes.back() == 0x77);
            CHECK(logits.back() == 0.5f);
            for (std::size_t i = 0; i < n; ++i) {
                for (std::size_t bit = 0; bit < bits; ++bit) {
                    const float expected = logit(pixels.data() + i * bytes, bit);
                    CHECK(logits[i * bits + bit] == expected);
                    CHECK((codes[2 * i + bit / 8] >> bit % 8 & 1) == (expected >= 0));
                }
                CHECK(codes[2 * i + 1] < 16);  // padding
            }
        }
    }
}

TEST("an image is encoded like its pixels") {
    const Encoder encoder(path, on_cpu());
    std::vector<std::vector<std::uint8_t>> memory;
    std::vector<idcwh::Image> images;
    std::vector<std::uint8_t> pixels;
    for (std::size_t i = 0; i < 19; ++i) {
        const std::size_t width = 1 + 13 * i % 50, height = 3 + 7 * i % 40;
        memory.push_back(check::random_bytes(3 * width * height, static_cast<std::uint32_t>(i)));
        images.push_back({memory.back().data(), width, height});
        const auto one = encoder.preprocess()(images.back());
        pixels.insert(pixels.end(), one.begin(), one.end());
    }
    std::vector<std::uint8_t> expected(38), codes(38), code(2);
    encoder.encode(pixels.data(), 19, expected.data());
    encoder.encode(images.data(), 19, codes.data());
    CHECK(codes == expected);
    encoder.encode(images[7], code.data());
    CHECK(std::equal(code.begin(), code.end(), expected.begin() + 14));
}

TEST("threads share one encoder") {
    Encoder made(path, on_cpu(2));
    const Encoder encoder = std::move(made);
    const auto pixels = check::random_bytes(50 * bytes, 9);
    std::vector<std::uint8_t> expected(100);
    encoder.encode(pixels.data(), 50, expected.data());
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i)
        all.emplace_back([&] {
            for (int round = 0; round < 20; ++round) {
                std::vector<std::uint8_t> codes(100);
                encoder.encode(pixels.data(), 50, codes.data());
                CHECK(codes == expected);
            }
        });
    for (auto& thread : all) thread.join();
}

std::string refusal(ErrorCode code, const std::function<void()>& body) {
    try {
        body();
        CHECK(!"an error was expected");
    } catch (const Error& error) {
        if (error.code() != code) std::printf("unexpected: %s\n", error.what());
        CHECK(error.code() == code);
        const std::string text = error.what();
        CHECK(text.find('\n') == text.npos);
        CHECK(text.starts_with(error.path()));
        return text;
    }
    return "";
}

bool has(const std::string& text, const std::string& part) {
    if (text.find(part) != text.npos) return true;
    std::printf("'%s' is not in: %s\n", part.c_str(), text.c_str());
    return false;
}

// Writes the model to another file, with `from` replaced by text of the same size.
std::string changed(const std::string& from, const std::string& to) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    std::string model = content.str();
    const auto at = model.find(from);
    CHECK(at != model.npos);
    CHECK(from.size() == to.size());
    model.replace(at, from.size(), to);
    std::ofstream("changed.onnx", std::ios::binary) << model;
    return "changed.onnx";
}

// As in idcwh-export, the file's SHA-256 is appended as one more line of metadata.
TEST("a model that was changed raises corrupt") {
    std::ifstream file(path, std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    std::string model = content.str();
    model += "\x72\x50\x0a\x0cidcwh_sha256\x12\x40" + idcwh::sha256(model);
    const auto write = [](const std::string& text) {
        std::ofstream("with_checksum.onnx", std::ios::binary) << text;
        return "with_checksum.onnx";
    };
    CHECK(Encoder(write(model), on_cpu()).fingerprint() == idcwh::sha256(model));
    for (const std::size_t at : {model.size() / 2, model.size() - 1, model.size() - 200}) {
        std::string corrupt = model;
        corrupt[at] ^= 1;
        const auto why = refusal(ErrorCode::corrupt, [&] { Encoder(write(corrupt), on_cpu()); });
        CHECK(has(why, "with_checksum.onnx: was changed after idcwh-export wrote it"));
    }
    // An appended graph has an initializer with external data.
    const std::string outside =
        "\x3a\x16"
        "\x2a\x14"
        "\x6a\x12"
        "\x0a\x08location\x12\x06m.data";
    CHECK(refusal(ErrorCode::corrupt, [&] {
              Encoder(write(model + outside), on_cpu());
          }).find("weights are in another file, ") != std::string::npos);
    const auto why = refusal(ErrorCode::corrupt, [&] { Encoder(write(model + "x"), on_cpu()); });
    CHECK(has(why, "was changed"));
}

TEST("models, options and arguments that are invalid raise") {
    const auto open = [](const std::string& file) { return [file] { Encoder(file, on_cpu()); }; };
    try {
        Encoder("no/such/model.onnx");
        CHECK(false);
    } catch (const idcwh::SystemError& error) {
        CHECK(error.error_number() == ENOENT);
        CHECK(error.path() == "no/such/model.onnx");
    }
    refusal(ErrorCode::system, open("."));
    std::ofstream("empty.onnx").flush();
    CHECK(has(refusal(ErrorCode::corrupt, open("empty.onnx")), "empty.onnx: is not an ONNX model"));
    std::ofstream("text.onnx") << "This is text.\n";
    CHECK(has(refusal(ErrorCode::corrupt, open("text.onnx")), "text.onnx: is not an ONNX model"));

    const std::vector<std::vector<std::string>> changes = {
        {"idcwh_format", "idcwh_farmat", "without idcwh metadata"},
        {"idcwh_bit_order", "idcwh_bit_ordre", "idcwh_bit_order (found nothing, expected 'little')"},
        {"little", "middle", "idcwh_bit_order (found 'middle', expected 'little')"},
        {">= 0", "> 0 ", "idcwh_threshold (found '> 0 '"},
        {"\"crop\": 8", "\"crop\": 9", "image (found uint8 [n, 8, 8, 3], expected uint8 [n, 9, 9, 3])"},
        {"\"crop\": 8", "\"krop\": 8", "idcwh_preprocess: preprocess: expected the fields"},
        {"bilinear", "bilinaer", "interpolation must be one of"},
        {"{\"resize\"", "{ resize\"", "idcwh_preprocess is missing or not JSON"},
        {"[\"chat\"", "[\"cha\"t", "idcwh_classes is missing or not JSON"},
        {"\"chat\"", "123456", "idcwh_classes holds a number; expected strings"},
        {"idcwh_method", "idcwh_mehtod", "idcwh_method is missing"},
    };
    for (const auto& change : changes)
        CHECK(has(refusal(ErrorCode::corrupt, open(changed(change[0], change[1]))), "changed.onnx: "));
    for (const auto& change : changes)
        CHECK(has(refusal(ErrorCode::corrupt, open(changed(change[0], change[1]))), change[2]));

    EncoderOptions options = on_cpu();
    options.preprocess = idcwh::Preprocess(10, 8);
    CHECK(Encoder(changed("idcwh_format", "idcwh_farmat"), options).bits() == bits);  // usable nevertheless
    options.bits = 13;
    CHECK(has(refusal(ErrorCode::corrupt, [&] { Encoder(path, options); }), ", expected "));
    options = on_cpu();
    options.library = "libno_such_library.so";
    CHECK(
        has(refusal(ErrorCode::unsupported, [&] { Encoder(path, options); }), "does not load (libno_such_library.so"));
    options.library = "libm.so.6";
    CHECK(has(refusal(ErrorCode::unsupported, [&] { Encoder(path, options); }), "is not ONNX Runtime"));
    refusal(ErrorCode::invalid_argument, [] { Encoder(path, on_cpu(1025)); });
    options = on_cpu();
    options.device = static_cast<Device>(3);
    refusal(ErrorCode::invalid_argument, [&] { Encoder(path, options); });
    const Encoder encoder(path, on_cpu());
    std::uint8_t byte = 0;
    refusal(ErrorCode::invalid_argument, [&] { encoder.encode(static_cast<std::uint8_t*>(nullptr), 1, &byte); });
    refusal(ErrorCode::invalid_argument, [&] { encoder.encode(&byte, 1, nullptr); });
    refusal(ErrorCode::invalid_argument, [&] { encoder.encode(&byte, ~std::size_t{0}, &byte); });
    refusal(ErrorCode::invalid_argument, [&] { encoder.encode(idcwh::Image{&byte, 0, 5}, &byte); });
}

// The machine may have a GPU. cuda uses it or raises the cause; automatic always finds a device.
TEST("a device is used or raises with the cause") {
    EncoderOptions options;
    const Encoder any(path, options);
    CHECK(!any.why().empty());
    options.device = Device::cuda;
    if (any.device() == Device::cuda) {
        CHECK(Encoder(path, options).device() == Device::cuda);
    } else {
        const auto why = refusal(ErrorCode::unsupported, [&] { Encoder(path, options); });
        CHECK(has(why, any.why()));
    }
}

TEST("a manifest of another model raises") {
    const Encoder encoder(path, on_cpu());
    const std::string manifest = encoder.manifest("codes.bin", "images");
    CHECK(has(manifest, "\"sha256\": \"" + encoder.fingerprint() + "\""));
    encoder.check_manifest(manifest);
    const std::string other = std::string(64, 'a');
    const auto check = [&](const std::string& text) {
        return refusal(ErrorCode::invalid_argument, [&] { encoder.check_manifest(text); });
    };
    const auto why = check("{\"model\": {\"sha256\": \"" + other + "\"}}");
    CHECK(has(why, encoder.fingerprint()));
    CHECK(has(why, other));
    CHECK(has(check("{}"), "expected no model"));
    CHECK(has(check("{\"model\": 1}"), "expected no model"));
    CHECK(has(check("{"), "not JSON"));
    const auto edited = [&](const std::string& field) {  // the same model with another option
        std::string text = manifest;
        return text.insert(text.find(field) + field.size(), "9");
    };
    CHECK(has(check(edited("\"resize\": ")), "leave EncoderOptions::preprocess out"));
    CHECK(has(check(edited("\"bits\": ")), "leave EncoderOptions::bits out"));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2 || argv[1][0] == '-') return std::printf("expected the model\n"), 2;
    path = std::filesystem::absolute(argv[1]).string();
    const check::Folder folder;
    std::filesystem::current_path(folder.path());
    return check::run(argc, argv, [] {
        try {
            Encoder(path, on_cpu());
        } catch (const Error& error) {
            // A library that the user names must load.
            if (error.code() == ErrorCode::unsupported && !std::getenv("IDCWH_ONNXRUNTIME"))
                throw check::Skipped{error.what()};
            throw;
        }
    });
}
