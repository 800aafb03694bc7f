// Detection of instruction sets. CPUID reports those of the processor, and XGETBV the registers that the operating
// system saves on a task switch.
#include "cpu/cpu.hpp"

#include "cpu/kernels/kernels.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace idcwh::cpu {
namespace {

#if defined(__x86_64__)
unsigned long long saved_registers() noexcept {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return static_cast<unsigned long long>(high) << 32 | low;
}

bool has(unsigned word, unsigned bit) noexcept { return word >> bit & 1; }

Features detect() noexcept {
    Features found;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
    found.sse42 = has(c, 20);
    found.popcnt = has(c, 23);
    const bool osxsave = has(c, 27), avx = has(c, 28);
    if (!osxsave || !avx || !found.popcnt) return found;
    const auto saved = saved_registers();
    if ((saved & 0x6) != 0x6) return found;  // SSE and AVX state

    unsigned b7, c7;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d)) return found;
    unsigned extended = 0;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) extended = c;
    const bool bmi = has(b7, 3) && has(b7, 8), lzcnt = has(extended, 5);
    found.avx2 = has(b7, 5) && bmi && lzcnt;
    if ((saved & 0xe6) != 0xe6) return found;  // also opmask and the upper halves of ZMM
    // F, DQ, BW, VL
    found.avx512 = found.avx2 && has(b7, 16) && has(b7, 17) && has(b7, 30) && has(b7, 31);
    found.avx512vpopcnt = found.avx512 && has(c7, 12) && has(c7, 14);  // BITALG, VPOPCNTDQ
    return found;
}

bool is_zen5_or_later() noexcept {
    unsigned a, b, c, d;
    if (!__get_cpuid(0, &a, &b, &c, &d) || b != signature_AMD_ebx || !__get_cpuid(1, &a, &b, &c, &d)) return false;
    return (a >> 8 & 0xf) + (a >> 20 & 0xff) >= 26;  // family
}
#else
Features detect() noexcept { return {}; }
bool is_zen5_or_later() noexcept { return false; }
#endif

// Detected when the library is loaded. Detection on first use would need a lock, which a fork could leave locked.
const Features found = detect();

}  // namespace

const Features& features() { return found; }

}  // namespace idcwh::cpu

namespace idcwh::kernels {

const bool single_prefetch = cpu::is_zen5_or_later();

}  // namespace idcwh::kernels
