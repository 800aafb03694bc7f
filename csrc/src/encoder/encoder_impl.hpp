// What an Encoder consists of.
#pragma once

#include <idcwh/encoder.hpp>

#include <string>

#include "encoder/checksum.hpp"
#include "encoder/model_info.hpp"
#include "encoder/session.hpp"

namespace idcwh {

struct Encoder::Parts {
    Parts(const std::string& path, const std::string& model, const EncoderOptions& options);
    // One image of noise: are these packed codes at all?
    void try_out() const;
    // At most batch_size images at once.
    void run(const std::uint8_t* pixels, std::size_t n, std::uint8_t* codes, float* logits) const;

    std::string path;
    Examined file;
    Session session;
    ModelInfo info;
    unsigned batch_size;
};

}  // namespace idcwh
