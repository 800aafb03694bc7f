// The threads that all searches of the process share. The library creates them on first use. A program with threads of
// its own can lend those instead. Every function here is thread-safe.
#pragma once

#include <cstddef>
#include <functional>

#include "export.hpp"

namespace idcwh {

// Sets the default number of threads, for searches that do not set one. 0 restores the initial default: the environment
// variable IDCWH_THREADS, else available_cores(). Throws Error(invalid_argument) above max_threads.
IDCWH_API void set_threads(unsigned threads);

// Returns the default number of threads. Throws Error(invalid_argument) if IDCWH_THREADS is invalid.
IDCWH_API unsigned threads();

// Returns the number of cores that the process may use. That is its affinity mask, limited by the CPU quotas of its
// control groups (cgroup v1 and v2, rounded up). Quotas are read once per process.
IDCWH_API unsigned available_cores();

// Runs body(0) .. body(tasks - 1), each once, and returns when all have finished. It uses up to `threads` threads; the
// calling thread may be one of them. body does not throw. Several threads may call an executor at the same time.
using Executor = std::function<void(std::size_t tasks, unsigned threads, const std::function<void(std::size_t)>& body)>;

// Sets the executor of every search that starts from now on. An empty function restores the library's own threads.
IDCWH_API void set_executor(Executor executor);

}  // namespace idcwh
