// AVX2 kernels. Bits are counted by table look-up, 32 half bytes per instruction.
#if defined(__x86_64__) || defined(IDCWH_SIMDE)
#include "cpu/kernels/kernels.hpp"

#include <cstring>
#include <type_traits>

#include "cpu/kernels/intrinsics.hpp"
#include "cpu/kernels/target.hpp"

IDCWH_TARGET("avx2,popcnt,bmi,bmi2,lzcnt")

#define IDCWH_POPCOUNT64(x) static_cast<std::uint32_t>(__builtin_popcountll(x))
#include "cpu/kernels/planes.hpp"
#include "cpu/kernels/rows256.hpp"
#include "cpu/kernels/tile.hpp"

namespace idcwh::kernels {
namespace {

struct Vector256 {
    using type = __m256i;
    using mask = std::uint32_t;
    static constexpr std::size_t lanes = 32, planes_per_byte = 2;
    static constexpr mask all = 0xffffffffu;
    static IDCWH_INLINE type load(const std::uint8_t* p) { return load256(p); }
    static IDCWH_INLINE void store(std::uint8_t* p, type x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }
    static IDCWH_INLINE type set1(unsigned x) { return _mm256_set1_epi8(static_cast<char>(x)); }
    static IDCWH_INLINE type table(const std::uint8_t* p) { return _mm256_broadcastsi128_si256(load128(p)); }
    static IDCWH_INLINE type term(type table, type plane) { return _mm256_shuffle_epi8(table, plane); }
    template <bool Saturate>
    static IDCWH_INLINE void add(type& sum, type x) {
#if defined(IDCWH_SIMDE)
        sum = Saturate ? _mm256_adds_epu8(sum, x) : _mm256_add_epi8(sum, x);
#else
        // In assembly, because GCC otherwise reorders the additions until the sums spill, or copies them between
        // registers.
        if constexpr (Saturate)
            __asm__("vpaddusb %1, %0, %0" : "+x"(sum) : "x"(x));
        else
            __asm__("vpaddb %1, %0, %0" : "+x"(sum) : "x"(x));
#endif
    }
    static IDCWH_INLINE type both(type a, type b) { return _mm256_and_si256(a, b); }
    static IDCWH_INLINE mask signs(type x) { return static_cast<mask>(_mm256_movemask_epi8(x)); }
    static IDCWH_INLINE type average(type a, type b) { return _mm256_avg_epu8(a, b); }
    static IDCWH_INLINE mask at_most(type a, type b) { return signs(_mm256_cmpeq_epi8(_mm256_min_epu8(a, b), a)); }
};

}  // namespace

const Kernels avx2 = {"avx2",
                      0.025,
                      scan_256<CountByTable>,
                      distances_256<CountByTable>,
                      count_bits_scalar,
                      pack_bytes_256,
                      list_bits_scalar,
                      Vector256::planes_per_byte,
                      Vector256::lanes * tile_vectors,
                      spread_planes<Vector256::lanes * tile_vectors, true>,
                      prepare_halves,
                      scan_tile<Vector256>};

}  // namespace idcwh::kernels
IDCWH_TARGET_END
#endif
