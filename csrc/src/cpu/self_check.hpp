// Do the kernels of an instruction set, on this very machine, give what the portable ones give?
#pragma once

#include "cpu/kernels/kernels.hpp"

namespace idcwh {

// The name of the first kernel whose results differ from the portable one's over a few hundred rows of every kind of
// width; null when none does. Takes well under a millisecond.
const char* differing_kernel(const kernels::Kernels& kernels);

}  // namespace idcwh
