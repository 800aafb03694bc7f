// NEON kernels, for every 64-bit ARM processor. An instruction counts the bits of each byte.
#if defined(__aarch64__)
#include "cpu/kernels/kernels.hpp"

#include <cstring>
#include <type_traits>

#include "cpu/kernels/target.hpp"

#define IDCWH_POPCOUNT64(x) static_cast<std::uint32_t>(__builtin_popcountll(x))
#include "cpu/kernels/masks.hpp"
#include "cpu/kernels/planes128.hpp"
#include "cpu/kernels/rows128.hpp"
#include "cpu/kernels/tile.hpp"

namespace idcwh::kernels {
namespace {

struct Vector128 {
    using type = uint8x16_t;
    using mask = std::uint64_t;
    static constexpr std::size_t lanes = 16, planes_per_byte = 1;
    static constexpr mask all = 0xffff;
    static IDCWH_INLINE type load(const std::uint8_t* p) { return vld1q_u8(p); }
    static IDCWH_INLINE void store(std::uint8_t* p, type x) { vst1q_u8(p, x); }
    static IDCWH_INLINE type set1(unsigned x) { return vdupq_n_u8(static_cast<std::uint8_t>(x)); }
    static IDCWH_INLINE type table(const std::uint8_t* p) { return vld1q_u8(p); }
    static IDCWH_INLINE type term(type table, type plane) { return vcntq_u8(veorq_u8(table, plane)); }
    template <bool Saturate>
    static IDCWH_INLINE void add(type& sum, type x) {
        sum = Saturate ? vqaddq_u8(sum, x) : vaddq_u8(sum, x);
    }

    // NEON has no movemask. The inner loop only tests whether all bytes of two vectors have their sign bit, which takes
    // one minimum. The mask itself takes four shifts that collect a bit per byte.
    struct Pair {
        type least;
    };
    static IDCWH_INLINE Pair both(type a, type b) { return {vminq_u8(a, b)}; }
    static IDCWH_INLINE mask signs(Pair pair) { return vminvq_u8(pair.least) >= 128 ? all : 0; }
    static IDCWH_INLINE mask signs(type x) {
        const uint16x8_t twos = vreinterpretq_u16_u8(vshrq_n_u8(x, 7));
        const uint32x4_t fours = vreinterpretq_u32_u16(vsraq_n_u16(twos, twos, 7));
        const uint64x2_t eights = vreinterpretq_u64_u32(vsraq_n_u32(fours, fours, 14));
        const uint8x16_t bits = vreinterpretq_u8_u64(vsraq_n_u64(eights, eights, 28));
        return vgetq_lane_u8(bits, 0) | static_cast<mask>(vgetq_lane_u8(bits, 8)) << 8;
    }
    static IDCWH_INLINE type average(type a, type b) { return vrhaddq_u8(a, b); }
    static IDCWH_INLINE mask at_most(type a, type b) { return signs(vcleq_u8(a, b)); }
};

}  // namespace

const Kernels neon = {"neon",
                      0.05 /* an estimate, because these kernels have only run in an emulator */,
                      scan_128,
                      distances_128,
                      count_bits_scalar,
                      pack_bytes_scalar,
                      list_bits_scalar,
                      Vector128::planes_per_byte,
                      Vector128::lanes * tile_vectors,
                      spread_bytes<Vector128::lanes * tile_vectors>,
                      prepare_lanes,
                      scan_tile<Vector128>};

}  // namespace idcwh::kernels
#endif
