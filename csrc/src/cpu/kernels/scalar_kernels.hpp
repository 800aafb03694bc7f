// Kernels that use only scalar.hpp, for instruction sets without vectors.
#pragma once

#include "cpu/kernels/masks.hpp"
#include "cpu/kernels/scalar.hpp"

namespace idcwh::kernels {
namespace {

std::size_t scan_scalar(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                        std::uint32_t limit, Hit* hits) {
    return with_constant_width(
        bytes, [&](auto width) IDCWH_LAMBDA_INLINE { return scan_rows(codes, 0, rows, width, query, limit, hits, 0); });
}

void distances_scalar(const std::uint8_t* codes, std::size_t rows, std::size_t bytes, const std::uint8_t* query,
                      std::uint16_t* out) {
    with_constant_width(bytes, [&](auto width) IDCWH_LAMBDA_INLINE {
        distance_rows(codes, 0, rows, width, query, out);
        return 0;
    });
}

}  // namespace
}  // namespace idcwh::kernels
