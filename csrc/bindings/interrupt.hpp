// Ctrl-C in the middle of a long search.
#pragma once

#include <pybind11/pybind11.h>

#include <idcwh/search.hpp>

#include <algorithm>
#include <chrono>

namespace idcwh::bindings {

// Asks Python, now and then, whether a signal has come whose handler raises. The search then ends, and translate()
// leaves the exception that the handler raised as it is. Only Python's main thread learns of signals: searches on
// others are not asked.
class Ctrl_C {
public:
    Ctrl_C() = default;
    Ctrl_C(const Ctrl_C&) = delete;
    Ctrl_C& operator=(const Ctrl_C&) = delete;
    const Interrupt* interrupt() const { return on_main_thread() ? &interrupt_ : nullptr; }

    // Called once, with the interpreter locked.
    static void remember_main_thread() {
        namespace py = pybind11;
        main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
    }

private:
    using Clock = std::chrono::steady_clock;
    static inline unsigned long main_thread = 0;
    static bool on_main_thread() { return PyThread_get_thread_ident() == main_thread; }

    // Where other threads keep the interpreter busy it takes them milliseconds to let go of it: the search asks so
    // seldom that this costs it a tenth of its time.
    static bool pending(void* self) {
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
