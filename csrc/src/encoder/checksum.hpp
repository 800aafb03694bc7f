// The SHA-256 of a model.onnx, and whether the file is what idcwh-export wrote: idcwh_search/encoder/model_file.py has
// the why.
#pragma once

#include <string>
#include <string_view>

namespace idcwh {

enum class ChecksumState { valid, missing, wrong };

struct Examined {
    ChecksumState checksum;
    std::string sha256;  // of the whole file
};

Examined examine(std::string_view model);

// The file that some of a model's weights are in, which its SHA-256 says nothing of; empty where it holds them all.
std::string external_data(std::string_view model);

}  // namespace idcwh
