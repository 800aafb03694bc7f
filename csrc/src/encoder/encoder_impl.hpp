// The private members of Encoder.
#pragma once

#include <idcwh/encoder.hpp>

#include <string>

#include "encoder/checksum.hpp"
#include "encoder/model_info.hpp"
#include "encoder/session.hpp"

namespace idcwh {

struct Encoder::Parts {
    Parts(const std::string& path, const std::string& model, const EncoderOptions& options);
    // Throws unless the codes of one noise image are its packed logits.
    void try_out() const;
    // Runs at most batch_size images at once.
    void run(const std::uint8_t* pixels, std::size_t n, std::uint8_t* codes, float* logits) const;

    std::string path;
    Examined file;
    Session session;
    ModelInfo info;
    unsigned batch_size;
};

}  // namespace idcwh
