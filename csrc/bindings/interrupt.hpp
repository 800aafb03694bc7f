// Ctrl-C in the middle of a long search.
#pragma once

#include <pybind11/pybind11.h>

#include <idcwh/search.hpp>

namespace idcwh::bindings {

// Asks Python, now and then, whether a signal has come whose handler raises. The search then ends, and translate()
// leaves the exception that the handler raised as it is. On threads other than Python's main one it never has.
class Ctrl_C {
public:
    const Interrupt* interrupt() const { return &interrupt_; }

private:
    static bool pending(void*) {
        const pybind11::gil_scoped_acquire acquire;
        return PyErr_CheckSignals() != 0;
    }
    Interrupt interrupt_{pending, nullptr};
};

}  // namespace idcwh::bindings
