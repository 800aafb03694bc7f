// What a model.onnx says of itself, and whether its inputs and outputs are what it says. As encoder/metadata.py has it.
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
    std::string precision;         // fp32, fp16, int8; "unknown" where the caller said what the model expects
};

constexpr const char* without_metadata =
    "expected one written by idcwh-export; to use it all the same, say what it expects in EncoderOptions::preprocess";

// Error(corrupt), with `name` in front, says what is missing or not as expected.
ModelInfo read_model_info(const Session& session, const std::string& name);

// The same for a model whose metadata is missing or not to be believed: options say what it expects.
ModelInfo explicit_model_info(const Session& session, const std::string& name, const EncoderOptions& options);

}  // namespace idcwh
