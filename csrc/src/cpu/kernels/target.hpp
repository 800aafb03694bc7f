// IDCWH_TARGET: compiles the rest of a file for an instruction set that the rest of the build must not use.
//
// IDCWH_TARGET("avx2,...") applies up to IDCWH_TARGET_END. Code in between is in an anonymous namespace and uses
// nothing of the standard library. Otherwise the linker might choose a template that was compiled with these
// instructions for the whole program.
//
// With IDCWH_SIMDE, the file is compiled with SIMDe, which implements the intrinsics in plain C. So the kernels can be
// tested on machines without the instruction set.
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
#if defined(IDCWH_SIMDE)  // intrinsics in C are long, and inlining them all takes a minute of compile time per file
#define IDCWH_INLINE inline
#define IDCWH_LAMBDA_INLINE
#else
#define IDCWH_INLINE inline __attribute__((always_inline))
#define IDCWH_LAMBDA_INLINE __attribute__((always_inline))
#endif

// Keeps a vector in a register. Otherwise GCC loads it again per use, and reorders sums until they spill.
#if defined(IDCWH_SIMDE)
#define IDCWH_IN_REGISTER(x) (void)(x)
#elif defined(__aarch64__)
#define IDCWH_IN_REGISTER(x) __asm__("" : "+w"(x))
#else
#define IDCWH_IN_REGISTER(x) __asm__("" : "+v"(x))
#endif
