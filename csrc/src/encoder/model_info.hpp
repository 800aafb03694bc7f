// The metadata of a model.onnx, compared with its inputs and outputs as in encoder/metadata.py.
#pragma once

#include <idcwh/preprocess.hpp>

#include <string>
#include <vector>

#include "encoder/session.hpp"

namespace idcwh {

struct ModelInfo {
    unsigned bits;
    Preprocess preprocess;
    std::vector<std::string> classes;
    std::string method, backbone;  // JSON
    std::string precision;         // fp32, fp16 or int8; "unknown" if the caller described the model
};

constexpr const char* without_metadata =
    "expected one written by idcwh-export; to use it nevertheless, pass its preprocessing in "
    "EncoderOptions::preprocess";

// Reads the metadata. Throws Error(corrupt), with `name` in front, if a field is missing or invalid.
ModelInfo read_model_info(const Session& session, const std::string& name);

// Returns the same for a model whose metadata is missing or wrong, as the options describe it.
ModelInfo explicit_model_info(const Session& session, const std::string& name, const EncoderOptions& options);

}  // namespace idcwh
