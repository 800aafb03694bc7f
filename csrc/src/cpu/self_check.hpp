// A check, at run time, that the kernels of an instruction set return the results of the portable ones on this machine.
#pragma once

#include "cpu/kernels/kernels.hpp"

namespace idcwh {

// Compares all kernels with the portable ones on a few hundred rows of every class of width, in less than a
// millisecond. Returns the name of the first kernel whose results differ, or null.
const char* differing_kernel(const kernels::Kernels& kernels);

}  // namespace idcwh
