// A small pool of threads, made on first use and shared by every search of the process.
#pragma once

#include <cstddef>
#include <functional>

namespace idcwh::pool {

// As many threads as the process may run on (its affinity, not the size of the machine).
unsigned available_threads();

// Calls body(0) .. body(tasks - 1), each once, on up to `threads` threads of which the caller is one, and returns when
// all are done. Searches running at the same time share the workers: none waits for another to begin. The first
// exception is rethrown.
void run(std::size_t tasks, unsigned threads, const std::function<void(std::size_t)>& body);

}  // namespace idcwh::pool
