// AVX-512 kernels with VPOPCNTDQ and BITALG (Ice Lake, Zen 4 and later). An instruction counts bits, per byte for
// batches and per 64-bit word for a single query. Planes of whole bytes need half as many steps as table look-ups.
#if defined(__x86_64__) || defined(IDCWH_SIMDE)
#include "cpu/kernels/kernels.hpp"

#include <cstring>
#include <type_traits>

#include "cpu/kernels/intrinsics.hpp"
#include "cpu/kernels/target.hpp"

IDCWH_TARGET("avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq,avx512bitalg,avx2,popcnt,bmi,bmi2,lzcnt")

#define IDCWH_POPCOUNT64(x) static_cast<std::uint32_t>(__builtin_popcountll(x))
#include "cpu/kernels/planes.hpp"
#include "cpu/kernels/rows256.hpp"
#include "cpu/kernels/vector512.hpp"

namespace idcwh::kernels {
namespace {

struct CountByInstruction {
    static IDCWH_INLINE __m256i bytes(__m256i x) { return _mm256_popcnt_epi8(x); }
    static IDCWH_INLINE __m256i words(__m256i x) { return _mm256_popcnt_epi64(x); }
    static IDCWH_INLINE __m256i words(__m256i x, __m256i y) { return _mm256_add_epi64(words(x), words(y)); }
};

struct VectorByCount : Vector512 {
    static constexpr std::size_t planes_per_byte = 1;
    static IDCWH_INLINE type term(type table, type plane) { return _mm512_popcnt_epi8(_mm512_xor_si512(table, plane)); }
};

}  // namespace

const Kernels avx512vpopcnt = {"avx512vpopcnt",
                               0.01,
                               scan_256<CountByInstruction>,
                               distances_256<CountByInstruction>,
                               count_bits_scalar,
                               pack_bytes_256,
                               list_bits_scalar,
                               VectorByCount::planes_per_byte,
                               VectorByCount::lanes * tile_vectors,
                               spread_planes<VectorByCount::lanes * tile_vectors, false>,
                               prepare_bytes,
                               scan_tile<VectorByCount>};

}  // namespace idcwh::kernels
IDCWH_TARGET_END
#endif
