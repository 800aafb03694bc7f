// The selection of the kernels that searches use.
#pragma once

#include <string>
#include <vector>

#include "cpu/kernels/kernels.hpp"

namespace idcwh {

// Returns the active kernels, which the first call selects. Throws Error(unsupported) if IDCWH_ISA names an instruction
// set that is unknown or not supported.
const kernels::Kernels& active_kernels();

// A set of kernels, and the reason if it cannot be used.
struct Candidate {
    const kernels::Kernels* kernels;
    std::string missing;  // empty: it can be used
};

// Checks a set of kernels. has: the processor has its instruction set. Kernels whose results differ from the portable
// ones on this machine are not used.
Candidate candidate(const kernels::Kernels& kernels, bool has);

// Returns the last candidate that can be used. They are ordered slowest first.
const kernels::Kernels* best_of(const std::vector<Candidate>& candidates);

}  // namespace idcwh
