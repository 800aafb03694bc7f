// The 512-bit vector for tile.hpp, without the comparison of a plane with a query (term).
#pragma once

#include "cpu/kernels/tile.hpp"

namespace idcwh::kernels {
namespace {

struct Vector512 {
    using type = __m512i;
    using mask = std::uint64_t;
    static constexpr std::size_t lanes = 64;
    static constexpr mask all = ~mask{0};
    static IDCWH_INLINE type load(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
    static IDCWH_INLINE void store(std::uint8_t* p, type x) { _mm512_storeu_si512(p, x); }
    static IDCWH_INLINE type set1(unsigned x) { return _mm512_set1_epi8(static_cast<char>(x)); }
    // The masked form of the broadcast, because GCC warns about an undefined operand in the plain one.
    static IDCWH_INLINE type table(const std::uint8_t* p) { return _mm512_maskz_broadcast_i32x4(0xffff, load128(p)); }
    template <bool Saturate>
    static IDCWH_INLINE void add(type& sum, type x) {
        sum = Saturate ? _mm512_adds_epu8(sum, x) : _mm512_add_epi8(sum, x);
        IDCWH_IN_REGISTER(sum);
    }
    static IDCWH_INLINE type both(type a, type b) { return _mm512_and_si512(a, b); }
    static IDCWH_INLINE mask signs(type x) { return _mm512_movepi8_mask(x); }
    static IDCWH_INLINE type average(type a, type b) { return _mm512_avg_epu8(a, b); }
    static IDCWH_INLINE mask at_most(type a, type b) { return _mm512_cmple_epu8_mask(a, b); }
};

}  // namespace
}  // namespace idcwh::kernels
