// AVX-512 (F, BW, VL) kernels: the batch path of AVX2 with vectors of twice the length. A single query uses the AVX2
// kernel, which is already limited by memory.
#if defined(__x86_64__) || defined(IDCWH_SIMDE)
#include "cpu/kernels/kernels.hpp"

#include <cstring>
#include <type_traits>

#include "cpu/kernels/intrinsics.hpp"
#include "cpu/kernels/target.hpp"

IDCWH_TARGET("avx512f,avx512bw,avx512vl,avx512dq,avx2,popcnt,bmi,bmi2,lzcnt")

#define IDCWH_POPCOUNT64(x) static_cast<std::uint32_t>(__builtin_popcountll(x))
#include "cpu/kernels/planes.hpp"
#include "cpu/kernels/rows256.hpp"
#include "cpu/kernels/vector512.hpp"

namespace idcwh::kernels {
namespace {

struct VectorByTable : Vector512 {
    static constexpr std::size_t planes_per_byte = 2;
    static IDCWH_INLINE type term(type table, type plane) { return _mm512_shuffle_epi8(table, plane); }
};

}  // namespace

const Kernels avx512 = {"avx512",
                        0.015,
                        scan_256<CountByTable>,
                        distances_256<CountByTable>,
                        count_bits_scalar,
                        pack_bytes_256,
                        list_bits_scalar,
                        VectorByTable::planes_per_byte,
                        VectorByTable::lanes * tile_vectors,
                        spread_planes<VectorByTable::lanes * tile_vectors, true>,
                        prepare_halves,
                        scan_tile<VectorByTable>};

}  // namespace idcwh::kernels
IDCWH_TARGET_END
#endif
