// The instruction set of the search kernels: selected by the processor on first use, or forced.
#pragma once

#include <string>
#include <vector>

#include "export.hpp"

namespace idcwh {

struct Isa {
    std::string name;  // x86-64: "portable", "popcnt", "avx2", "avx512", "avx512vpopcnt"; ARM: "portable", "neon"
    bool supported;    // by this processor and operating system
    bool active;       // true for the one that searches use
};

// Returns every instruction set that the library was compiled with, slowest first. Throws Error(unsupported) if the
// environment variable IDCWH_ISA names one that is unknown or that this machine does not support.
IDCWH_API std::vector<Isa> isa_list();

// Returns the name of the active instruction set. Throws like isa_list().
IDCWH_API std::string isa_active();

// Activates an instruction set for searches that start from now on. "auto" selects the fastest supported one.
// Throws Error(invalid_argument) for an unknown name, Error(unsupported) for one that this machine does not support.
IDCWH_API void isa_force(const std::string& name);

}  // namespace idcwh
