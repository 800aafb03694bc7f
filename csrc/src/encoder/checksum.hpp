// Checks whether a model.onnx is what idcwh-export wrote, by the SHA-256 at its end. The reasons are in
// idcwh_search/encoder/model_file.py.
#pragma once

#include <string>
#include <string_view>

namespace idcwh {

enum class ChecksumState { valid, missing, wrong };

struct Examined {
    ChecksumState checksum;
    std::string sha256;  // SHA-256 of the whole file
};

Examined examine(std::string_view model);

// Returns the path of the file with external weights, which the model's SHA-256 does not cover. Empty without external
// weights.
std::string external_data(std::string_view model);

}  // namespace idcwh
