// A model opened in ONNX Runtime. model_info.hpp and encoder.cpp interpret its inputs and outputs.
#pragma once

#include <idcwh/encoder.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace idcwh {

struct Tensor {
    std::string name, type;           // "uint8", "float", else "unknown type"
    std::vector<std::int64_t> shape;  // -1: any number
};

class Session {
public:
    // Opens the model. `name` is the file's name in errors. The options are those of encoder.hpp, with zeros replaced.
    Session(std::string_view model, const std::string& name, const EncoderOptions& options);
    ~Session();

    Device device() const;
    const std::string& why() const;
    const std::string& runtime() const;  // version of ONNX Runtime
    std::optional<std::string> metadata(const std::string& key) const;
    std::vector<Tensor> inputs() const;
    std::vector<Tensor> outputs() const;

    // The memory of a run: image [n][side][side][3], codes [n][code_bytes] and, unless null, logits [n][bits].
    struct Batch {
        const std::uint8_t* image;
        std::int64_t n, side, code_bytes, bits;
        std::uint8_t* codes;
        float* logits;
    };
    void run(const Batch& batch) const;

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace idcwh
