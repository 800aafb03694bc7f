// optimize(memory, threads), a method of indexes and of databases.
#pragma once

#include <idcwh/index.hpp>

#include <cstddef>

#include "arrays.hpp"
#include "interrupt.hpp"

namespace idcwh::bindings {

template <class Target>
void optimize(Target& self, const py::object& memory, const py::object& threads) {
    OptimizeOptions options;
    if (!memory.is_none()) options.memory = size_of(memory, "memory");
    options.threads = threads_of(threads);
    Ctrl_C ctrl_c;
    options.interrupt = ctrl_c.interrupt();
    const py::gil_scoped_release release;
    self.optimize(options);
}

}  // namespace idcwh::bindings
