// What a model.onnx says of itself, and whether its inputs and outputs are what it says. As modelinfo.py has it.
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
};

// Error(damaged), with `name` in front, says what is missing or not as expected.
ModelInfo read_model_info(const Session& session, const std::string& name);

}  // namespace idcwh
