// Kernels in plain C++ for any machine. Bits are counted by parallel sums of neighbours within a 64-bit word.
#include "cpu/kernels/kernels.hpp"

#include <type_traits>

namespace idcwh::kernels {
namespace {

inline std::uint32_t count_bits(std::uint64_t x) {
    x -= (x >> 1) & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return static_cast<std::uint32_t>((x * 0x0101010101010101u) >> 56);
}

}  // namespace
}  // namespace idcwh::kernels

#define IDCWH_POPCOUNT64(x) count_bits(x)
#include "cpu/kernels/scalar_kernels.hpp"

namespace idcwh::kernels {

const Kernels portable = {"portable",       0.33, scan_scalar, distances_scalar, count_bits_scalar, pack_bytes_scalar,
                          list_bits_scalar, 0,    1,           nullptr,          nullptr,           nullptr};

}  // namespace idcwh::kernels
