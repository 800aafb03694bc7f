// Which instruction set the engine runs on: chosen by the processor on first use, or forced.
#pragma once

#include <string>
#include <vector>

#include "export.hpp"

namespace idcwh {

struct Isa {
    std::string name;  // "portable", "popcnt", "avx2", "avx512", "avx512vpopcnt"; "portable", "neon"
    bool supported;    // by this processor and operating system
    bool active;       // the one that searches run on
};

// Every instruction set compiled in, slowest first. Throws Error(unsupported) when the environment variable IDCWH_ISA
// names one that is unknown or that this machine lacks.
IDCWH_API std::vector<Isa> isa_list();

// The name of the active one. Throws as isa_list does.
IDCWH_API std::string isa_active();

// Makes one of them active for the searches that start from now on; "auto" means the best that this machine has.
// Throws Error(invalid_argument) for an unknown name, Error(unsupported) for one that this machine lacks.
IDCWH_API void isa_force(const std::string& name);

}  // namespace idcwh
