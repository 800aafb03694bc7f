// Compiles the rest of a file for an instruction set that the build as a whole must not assume.
//
// IDCWH_TARGET("avx2,...") turns it on from there to the end of the file. Everything below it lives in an anonymous
// namespace and uses nothing of the standard library: a template instantiated here would be emitted with these
// instructions, and the linker might pick that copy for the whole program.
//
// With IDCWH_SIMDE the same file is compiled against SIMDe instead, which spells out each intrinsic in plain C: so the
// kernels of an instruction set can be tested on a machine that lacks it.
#pragma once

#define IDCWH_PRAGMA(text) _Pragma(#text)
#if defined(IDCWH_SIMDE)
#define IDCWH_TARGET(isa)
#elif defined(__clang__)
#define IDCWH_TARGET(isa) IDCWH_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define IDCWH_TARGET_END IDCWH_PRAGMA(clang attribute pop)
#else
#define IDCWH_TARGET(isa) IDCWH_PRAGMA(GCC target(isa))
#endif
#ifndef IDCWH_TARGET_END
#define IDCWH_TARGET_END
#endif

#define IDCWH_NOINLINE __attribute__((noinline))
#if defined(IDCWH_SIMDE)  // intrinsics in C are long: a file where all are inlined takes a minute to compile
#define IDCWH_INLINE inline
#define IDCWH_LAMBDA_INLINE
#else
#define IDCWH_INLINE inline __attribute__((always_inline))
#define IDCWH_LAMBDA_INLINE __attribute__((always_inline))
#endif

// Holds a vector in a register: GCC would otherwise load it again for each use, and regroup sums until they spill.
#if defined(IDCWH_SIMDE)
#define IDCWH_IN_REGISTER(x) (void)(x)
#elif defined(__aarch64__)
#define IDCWH_IN_REGISTER(x) __asm__("" : "+w"(x))
#else
#define IDCWH_IN_REGISTER(x) __asm__("" : "+v"(x))
#endif
