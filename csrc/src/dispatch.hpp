// The kernels that searches run on.
#pragma once

#include "kernels/kernels.hpp"

namespace idcwh {

// Chosen on first use; throws Error(unsupported) when IDCWH_ISA asks for what is not there.
const kernels::Kernels& active_kernels();

}  // namespace idcwh
