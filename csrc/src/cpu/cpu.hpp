// The instruction sets that the processor and the operating system support.
#pragma once

namespace idcwh::cpu {

struct Features {
    bool sse42 = false, popcnt = false, avx2 = false, avx512 = false, avx512vpopcnt = false;
};

const Features& features();

}  // namespace idcwh::cpu
