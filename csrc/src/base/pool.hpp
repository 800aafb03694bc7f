// The threads that all searches of the process share: a pool that is created on first use, or the caller's threads
// (threads.hpp).
#pragma once

#include <cstddef>
#include <functional>

namespace idcwh::pool {

// Returns the default number of threads of a search.
unsigned available_threads();

// Calls body(0) .. body(tasks - 1), each once, on up to `threads` threads including the caller, and returns when all
// have finished. Concurrent searches share the workers, and none waits for another to start. Rethrows the first
// exception and skips tasks that have not started. While the caller waits for other threads, it calls while_waiting
// (unless null) every few milliseconds; an exception of while_waiting counts like one of a task.
void run(std::size_t tasks, unsigned threads, const std::function<void(std::size_t)>& body,
         const std::function<void()>* while_waiting = nullptr);

}  // namespace idcwh::pool
