// The x86 intrinsics, or SIMDe's implementation of them under the same names.
#pragma once

#if defined(IDCWH_SIMDE)
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#else
#include <immintrin.h>
#endif
