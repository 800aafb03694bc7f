// The threads that searches share. The library makes a few, on first use; a program with threads of its own can lend
// them instead.
#pragma once

#include <cstddef>
#include <functional>

#include "export.hpp"

namespace idcwh {

// How many threads a search uses that does not say: set here, else by the environment variable IDCWH_THREADS, else
// available_cores(). 0 goes back to that.
IDCWH_API void set_threads(unsigned threads);
IDCWH_API unsigned threads();

// The number of cores that the process may use: its affinity mask, limited by the CPU quotas of its control groups
// (cgroup v1 and v2, rounded up). Quotas are read once per process.
IDCWH_API unsigned available_cores();

// Runs body(0) .. body(tasks - 1), each once, on up to `threads` threads of which the caller may be one, and returns
// when all are done. body does not throw. Must be callable from many threads at once.
using Executor = std::function<void(std::size_t tasks, unsigned threads, const std::function<void(std::size_t)>& body)>;

// Every search that starts from now on runs on this; an empty function goes back to the library's own threads.
IDCWH_API void set_executor(Executor executor);

}  // namespace idcwh
