// Kernels for x86-64-v2: the portable loops with the popcnt instruction.
#if defined(__x86_64__)
#include "cpu/kernels/kernels.hpp"

#include <cstring>
#include <type_traits>

#include "cpu/kernels/target.hpp"

IDCWH_TARGET("popcnt")

#define IDCWH_POPCOUNT64(x) static_cast<std::uint32_t>(__builtin_popcountll(x))
#include "cpu/kernels/scalar_kernels.hpp"

namespace idcwh::kernels {

const Kernels popcnt = {"popcnt",         0.11, scan_scalar, distances_scalar, count_bits_scalar, pack_bytes_scalar,
                        list_bits_scalar, 0,    1,           nullptr,          nullptr,           nullptr};

}  // namespace idcwh::kernels
IDCWH_TARGET_END
#endif
