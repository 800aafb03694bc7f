// Ctrl_C: ends a long search on Ctrl-C.
#pragma once

#include <pybind11/pybind11.h>

#include <idcwh/search.hpp>

#include <algorithm>
#include <chrono>

namespace idcwh::bindings {

// Runs pending Python signal handlers during a search. If one raises, the search ends, and translate() passes on that
// exception. Python runs signal handlers on the main thread only, so searches on other threads are not interrupted.
class Ctrl_C {
public:
    Ctrl_C() = default;
    Ctrl_C(const Ctrl_C&) = delete;
    Ctrl_C& operator=(const Ctrl_C&) = delete;
    // The interrupt of a search that ends on this thread.
    const Interrupt* interrupt() const { return on_main_thread() ? &interrupt_ : nullptr; }
    // The interrupt of a search that may continue on any thread.
    const Interrupt* interrupt_anywhere() const { return &interrupt_; }

    // Must be called once, with the GIL held.
    static void remember_main_thread() {
        namespace py = pybind11;
        main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
    }

private:
    using Clock = std::chrono::steady_clock;
    static inline unsigned long main_thread = 0;
    static bool on_main_thread() { return PyThread_get_thread_ident() == main_thread; }

    // If other threads run Python code, acquiring the GIL takes milliseconds. The next check is then delayed so that
    // waiting takes at most a tenth of the search.
    static bool pending(void* self) {
        if (!on_main_thread()) return false;
        auto& next = static_cast<Ctrl_C*>(self)->next_;
        const auto before = Clock::now();
        if (before < next) return false;
        const pybind11::gil_scoped_acquire acquire;
        const auto after = Clock::now();
        next = after + std::min<Clock::duration>(9 * (after - before), std::chrono::milliseconds(40));
        return PyErr_CheckSignals() != 0;
    }
    Clock::time_point next_{};
    Interrupt interrupt_{pending, this};
};

}  // namespace idcwh::bindings
