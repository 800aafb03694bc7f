// The kernels that searches run on.
#pragma once

#include <string>
#include <vector>

#include "cpu/kernels/kernels.hpp"

namespace idcwh {

// Chosen on first use; throws Error(unsupported) when IDCWH_ISA asks for what is not there.
const kernels::Kernels& active_kernels();

// One set of kernels, and why it cannot be used, if it cannot.
struct Candidate {
    const kernels::Kernels* kernels;
    std::string missing;  // empty: it can
};

// Compiled for an instruction set that the processor may lack: has says whether it has it. Kernels that differ from the
// portable ones on this machine are not used.
Candidate candidate(const kernels::Kernels& kernels, bool has);

// The last of them that can be used: they come slowest first.
const kernels::Kernels* best_of(const std::vector<Candidate>& candidates);

}  // namespace idcwh
