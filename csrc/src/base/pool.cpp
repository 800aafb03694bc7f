// The thread pool. The calling thread runs the tasks itself, and pool threads only help. It never waits for a helper to
// start: when it runs out of tasks, it withdraws the request for further helpers.
//
// A forked child has none of the parent's threads, and one of them may have held the lock of the pool. So a child
// creates a pool of its own and never touches the parent's, not even to destroy it.
#include "base/pool.hpp"

#include <idcwh/search.hpp>
#include <idcwh/threads.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace idcwh {
namespace pool {
namespace {

long process_id() {
#if defined(__unix__) || defined(__APPLE__)
    return static_cast<long>(getpid());
#else
    return 0;
#endif
}

// One call of run.
struct Job {
    const std::function<void(std::size_t)>* body;
    std::size_t tasks;
    std::atomic<std::size_t> next{0};
    std::mutex lock;
    std::exception_ptr failure;

    void work() {
        for (std::size_t task; (task = next.fetch_add(1)) < tasks;) attempt([&] { (*body)(task); });
    }
    template <class Action>
    bool attempt(Action action) {
        try {
            action();
            return true;
        } catch (...) {
            const std::lock_guard guard(lock);
            if (!failure) failure = std::current_exception();
            next.store(tasks);  // the result is an exception, so the remaining tasks are not needed
            return false;
        }
    }
};

class Pool {
public:
    const long process = process_id();

    void run(Job& job, unsigned helpers, const std::function<void()>* while_waiting) {
        Request request{&job, 0, 0};
        {
            const std::lock_guard guard(lock_);
            grow(helpers);
            request.wanted = std::min<std::size_t>(helpers, size_);
            if (request.wanted) requests_.push_back(&request);
        }
        for (unsigned i = 0; i < helpers; ++i) wake_.notify_one();
        job.work();
        std::unique_lock guard(lock_);
        request.wanted = 0;
        requests_.erase(std::remove(requests_.begin(), requests_.end(), &request), requests_.end());
        const auto done = [&] { return request.running == 0; };
        while (while_waiting && !done_.wait_for(guard, std::chrono::milliseconds(5), done)) {
            guard.unlock();
            if (!job.attempt(*while_waiting)) while_waiting = nullptr;
            guard.lock();
        }
        done_.wait(guard, done);
    }

private:
    struct Request {
        Job* job;
        std::size_t wanted;   // helpers still requested
        std::size_t running;  // helpers that run tasks
    };

    void grow(unsigned helpers) {
        while (size_ < helpers) {
            try {
                std::thread([this] { serve(); }).detach();
            } catch (const std::system_error&) {
                return;  // no more threads are available; fewer helpers give the same result
            }
            ++size_;
        }
    }

    void serve() {
        std::unique_lock guard(lock_);
        for (;;) {
            wake_.wait(guard, [&] { return !requests_.empty(); });
            Request& request = *requests_.front();
            if (--request.wanted == 0) requests_.pop_front();
            ++request.running;
            guard.unlock();
            request.job->work();
            guard.lock();
            if (--request.running == 0) done_.notify_all();
        }
    }

    std::mutex lock_;
    std::condition_variable wake_, done_;
    std::deque<Request*> requests_;
    std::size_t size_ = 0;
};

// Returns the pool of this process. It is never destroyed, because its threads may outlive the program's statics.
Pool& instance() {
    static std::atomic<Pool*> current{nullptr};
    Pool* pool = current.load(std::memory_order_acquire);
    while (!pool || pool->process != process_id()) {
        auto fresh = std::make_unique<Pool>();
        if (current.compare_exchange_strong(pool, fresh.get(), std::memory_order_acq_rel)) pool = fresh.release();
    }
    return *pool;
}

unsigned from_environment() {
    const char* text = std::getenv("IDCWH_THREADS");
    if (!text || !*text) return 0;
    unsigned number = 0;
    const char* end = text + std::strlen(text);
    const auto parsed = std::from_chars(text, end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end || number < 1 || number > max_threads)
        throw Error(ErrorCode::invalid_argument,
                    {.path = "IDCWH_THREADS",
                     .found = "'" + std::string(text) + "'",
                     .expected = "a whole number from 1 to " + std::to_string(max_threads)});
    return number;
}

std::atomic<unsigned> requested{0};

// Never freed, because a running search keeps the executor that it started with. There is no lock, because a fork could
// leave it locked.
std::atomic<const Executor*> executor{nullptr};

}  // namespace

unsigned available_threads() {
    if (const unsigned threads = requested.load()) return threads;
    const unsigned environment = from_environment();
    return environment ? environment : available_cores();
}

void run(std::size_t tasks, unsigned threads, const std::function<void(std::size_t)>& body,
         const std::function<void()>* while_waiting) {
    if (tasks < threads) threads = static_cast<unsigned>(tasks);
    if (threads <= 1) {
        for (std::size_t task = 0; task < tasks; ++task) body(task);
        return;
    }
    Job job;
    job.body = &body;
    job.tasks = tasks;
    if (const Executor* lent = executor.load(std::memory_order_acquire)) {
        (*lent)(tasks, threads, [&](std::size_t task) {
            if (job.next.load() < tasks) job.attempt([&] { body(task); });
        });
    } else {
        instance().run(job, threads - 1, while_waiting);
    }
    if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace pool

void set_threads(unsigned threads) {
    if (threads > max_threads)
        throw Error(
            ErrorCode::invalid_argument,
            {.path = "threads", .found = std::to_string(threads), .expected = "0 to " + std::to_string(max_threads)});
    pool::requested.store(threads);
}

unsigned threads() { return pool::available_threads(); }

void set_executor(Executor executor) {
    static std::mutex lock;
    static std::deque<Executor> kept;
    const std::lock_guard guard(lock);
    const Executor* next = executor ? &kept.emplace_back(std::move(executor)) : nullptr;
    pool::executor.store(next, std::memory_order_release);
}

}  // namespace idcwh
