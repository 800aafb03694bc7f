// The parts of the module _core, one per source file.
#pragma once

#include <pybind11/pybind11.h>

namespace idcwh::bindings {

void bind_database(pybind11::module_& m);
void bind_index(pybind11::module_& m);
void bind_join(pybind11::module_& m);
void bind_metrics(pybind11::module_& m);

}  // namespace idcwh::bindings
