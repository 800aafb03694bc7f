// A model opened in ONNX Runtime. What its inputs and outputs mean is the business of model_info.hpp and encoder.cpp.
#pragma once

#include <idcwh/encoder.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace idcwh {

struct Tensor {
    std::string name, type;           // "uint8", "float", else "of another type"
    std::vector<std::int64_t> shape;  // -1: any number
};

class Session {
public:
    // `name` is the file's, for errors; options as in encoder.hpp, without zeros.
    Session(std::string_view model, const std::string& name, const EncoderOptions& options);
    ~Session();

    Device device() const;
    const std::string& why() const;
    const std::string& runtime() const;  // its version
    std::optional<std::string> metadata(const std::string& key) const;
    std::vector<Tensor> inputs() const;
    std::vector<Tensor> outputs() const;

    // image [n][side][side][3] to codes [n][code_bytes] and, where it is not null, logits [n][bits].
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
