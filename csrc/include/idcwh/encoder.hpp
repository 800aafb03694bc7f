// Encoder: a model.onnx in a C++ program, from images to packed codes, bit for bit those of Python's.
//
//     const idcwh::Encoder encoder("model.onnx");
//     std::vector<std::uint8_t> code(encoder.code_bytes());
//     encoder.encode(idcwh::Image{rgb, width, height}, code.data());
//
// It runs on ONNX Runtime, whose shared library it loads when an encoder is made: any version from 1.11 on
// (from 1.14 on for what idcwh-export writes), that of a pip wheel for example. Nothing of it is linked.
//
// In the library idcwh_encoder (target idcwh::encoder, -lidcwh_encoder).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess.hpp"

namespace idcwh {

enum class Device { automatic, cpu, cuda };

struct EncoderOptions {
    // ONNX Runtime's shared library, by path or by name. Empty: the environment variable IDCWH_ONNXRUNTIME, else
    // libonnxruntime.so.1 wherever the system looks for libraries.
    std::string library;
    // cuda: a GPU, or Error(unsupported) says why not. automatic: a GPU where one can be had, and why() says why not.
    Device device = Device::automatic;
    // Of one run on the CPU. 0: as many cores as the process may use. A service with requests in parallel takes 1.
    unsigned threads = 0;
    // Images a run, at most. 0: 8 on the CPU, 64 on a GPU.
    unsigned batch_size = 0;
    // Threads on the CPU wait for their next work spinning: a single query is a tenth faster, and others have a core
    // less.
    bool spin = false;
    // Which GPU, and the most bytes that activations may take there; 0: no limit.
    unsigned gpu = 0;
    std::size_t gpu_memory = 0;
    // What the model expects, for a file without metadata, or one that was changed after it was written; its metadata
    // is not looked at then. bits: of a code; 0: as many as there are logits.
    std::optional<Preprocess> preprocess;
    unsigned bits = 0;
};

// Any number of threads may use one at the same time; each waits for its own run only.
class IDCWH_API Encoder {
public:
    // SystemError: the file cannot be read. Error(corrupt): no model, not one of ours, changed after it was written, or
    // not what its metadata says.
    // Error(unsupported): no ONNX Runtime, or not the device that was asked for.
    explicit Encoder(const std::string& path, const EncoderOptions& options = {});
    ~Encoder();
    Encoder(Encoder&&) noexcept;
    Encoder& operator=(Encoder&&) noexcept;

    unsigned bits() const;
    std::size_t code_bytes() const;  // of one code
    const Preprocess& preprocess() const;
    const std::vector<std::string>& classes() const;  // names, in label order
    const std::string& path() const;
    const std::string& fingerprint() const;  // SHA-256 of the file, as a database's manifest has it
    Device device() const;                   // cpu or cuda: what it runs on
    const std::string& why() const;          // one line: why that device
    const std::string& runtime() const;      // the version of ONNX Runtime
    std::optional<std::string> metadata(const std::string& key) const;  // "idcwh_method", ...

    // n images that went through preprocess(), uint8 [n][crop][crop][3], to codes [n][code_bytes()] and, where it is
    // not null, logits [n][bits()]. Bit i of a code is logit i >= 0.
    void encode(const std::uint8_t* pixels, std::size_t n, std::uint8_t* codes, float* logits = nullptr) const;
    // Images of any size.
    void encode(const Image* images, std::size_t n, std::uint8_t* codes, float* logits = nullptr) const;
    void encode(const Image& image, std::uint8_t* code, float* logits = nullptr) const {
        encode(&image, 1, code, logits);
    }

    // What a new database says of its model: for Database::create. Where `images` is not empty, keys are paths below
    // it.
    std::string manifest(const std::string& database_path, const std::string& images = "") const;
    // Error(invalid_argument), with both fingerprints, unless the manifest of a database says that this model made it.
    void check_manifest(std::string_view manifest) const;

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace idcwh
