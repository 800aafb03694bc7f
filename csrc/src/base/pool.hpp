// A small pool of threads, made on first use and shared by every search of the process; or the caller's own threads
// (threads.hpp).
#pragma once

#include <cstddef>
#include <functional>

namespace idcwh::pool {

// How many threads a search uses that does not say.
unsigned available_threads();

// Calls body(0) .. body(tasks - 1), each once, on up to `threads` threads of which the caller is one, and returns when
// all are done. Searches running at the same time share the workers: none waits for another to begin. The first
// exception is rethrown. The caller may have to wait for the others to end: while_waiting, where there is one, is
// called every few milliseconds meanwhile; when it throws, tasks that have not begun are left out and its exception is
// the one rethrown.
void run(std::size_t tasks, unsigned threads, const std::function<void(std::size_t)>& body,
         const std::function<void()>* while_waiting = nullptr);

}  // namespace idcwh::pool
