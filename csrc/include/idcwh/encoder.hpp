// Encoder: runs a model.onnx and returns packed codes of images, bit-identical to those of the Python encoder.
//
//     const idcwh::Encoder encoder("model.onnx");
//     std::vector<std::uint8_t> code(encoder.code_bytes());
//     encoder.encode(idcwh::Image{rgb, width, height}, code.data());
//
// Inference uses ONNX Runtime. The constructor loads its shared library at run time, for example from a pip wheel.
// ONNX Runtime is not linked. Version 1.11 or later is required, and 1.14 or later for models of idcwh-export.
//
// Library: idcwh_encoder (target idcwh::encoder, -lidcwh_encoder).
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
    // Path or name of ONNX Runtime's shared library. Empty: the environment variable IDCWH_ONNXRUNTIME, else
    // libonnxruntime.so.1 on the library path of the system.
    std::string library;
    // automatic: a GPU if one is available, else the CPU; why() has the reason. cuda: Error(unsupported) without a GPU.
    Device device = Device::automatic;
    // Threads per inference run on the CPU. 0: all cores that the process may use. Use 1 in a service that encodes
    // requests in parallel.
    unsigned threads = 0;
    // Largest number of images per inference run. 0: 8 on the CPU, 64 on a GPU.
    unsigned batch_size = 0;
    // Idle CPU threads spin between runs. This shortens the latency of a single image, but keeps a core busy.
    bool spin = false;
    // Number of the GPU.
    unsigned gpu = 0;
    // Largest size of activations on the GPU in bytes. 0: no limit.
    std::size_t gpu_memory = 0;
    // Overrides the metadata, for files without it or changed after export.
    std::optional<Preprocess> preprocess;
    // Code length, with `preprocess`. 0: one bit per logit.
    unsigned bits = 0;
};

// A loaded model. Thread-safe: several threads may run it at the same time.
class IDCWH_API Encoder {
public:
    // Loads a model. Throws SystemError if the file cannot be read. Throws Error(corrupt) if it is not a model of
    // idcwh-export, was changed after export, or does not match its metadata. Throws Error(unsupported) if ONNX Runtime
    // or the requested device is missing.
    explicit Encoder(const std::string& path, const EncoderOptions& options = {});
    ~Encoder();
    Encoder(Encoder&&) noexcept;
    Encoder& operator=(Encoder&&) noexcept;

    unsigned bits() const;
    std::size_t code_bytes() const;  // size of one code
    const Preprocess& preprocess() const;
    const std::vector<std::string>& classes() const;  // names, in label order
    const std::string& path() const;
    const std::string& fingerprint() const;  // SHA-256 of the file, as in a database's manifest
    Device device() const;                   // cpu or cuda
    const std::string& why() const;          // reason for the choice of the device, one line
    const std::string& runtime() const;      // version of ONNX Runtime
    std::optional<std::string> metadata(const std::string& key) const;  // an entry such as "idcwh_method"

    // Encodes n images that preprocess() has written, uint8 [n][crop][crop][3]. Writes codes [n][code_bytes()] and,
    // unless `logits` is null, logits [n][bits()]. Bit i of a code is 1 if logit i >= 0.
    void encode(const std::uint8_t* pixels, std::size_t n, std::uint8_t* codes, float* logits = nullptr) const;
    // Preprocesses and encodes n images of any size.
    void encode(const Image* images, std::size_t n, std::uint8_t* codes, float* logits = nullptr) const;
    void encode(const Image& image, std::uint8_t* code, float* logits = nullptr) const {
        encode(&image, 1, code, logits);
    }

    // Returns the manifest of a new database, for Database::create. `images` is the folder to which keys are
    // relative; empty: none.
    std::string manifest(const std::string& database_path, const std::string& images = "") const;
    // Throws Error(invalid_argument), with both fingerprints, unless the manifest of a database contains this model.
    void check_manifest(std::string_view manifest) const;

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace idcwh
