// The thread pool: each task runs once, exceptions reach the caller, and many callers run at once. Also covers a child
// after fork, interrupts while waiting, and the executor of a program.
#include "base/pool.hpp"

#include <idcwh/search.hpp>
#include <idcwh/threads.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <thread>

#include "check.hpp"

#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace {

void each_task_once(std::size_t tasks, unsigned threads) {
    std::vector<std::atomic<int>> seen(tasks);
    idcwh::pool::run(tasks, threads, [&](std::size_t task) { seen[task].fetch_add(1); });
    for (auto& count : seen) CHECK(count.load() == 1);
}

TEST("threads() follows IDCWH_THREADS and set_threads") {
    unsetenv("IDCWH_THREADS");
    const unsigned here = idcwh::threads();
    CHECK(here >= 1);
    setenv("IDCWH_THREADS", "3", 1);
    CHECK(idcwh::threads() == 3);
    idcwh::set_threads(5);
    CHECK(idcwh::threads() == 5);
    idcwh::set_threads(0);
    for (const char* wrong : {"0", "-1", "two", "2x", "1025", "99999999999"}) {
        setenv("IDCWH_THREADS", wrong, 1);
        bool refused = false;
        try {
            idcwh::threads();
        } catch (const idcwh::Error& error) {
            refused = std::string(error.what()).find(wrong) != std::string::npos;
        }
        CHECK(refused);
    }
    unsetenv("IDCWH_THREADS");
    CHECK(idcwh::threads() == here);
}

// The interrupt is checked when the caller has no tasks left and another thread's task continues. It may end the run.
TEST("a caller that waits is interrupted") {
    std::atomic<int> asked{0};
    const std::function<void()> count = [&] { ++asked; };
    const auto caller = std::this_thread::get_id();
    const auto task = [&](std::size_t) {
        if (std::this_thread::get_id() == caller) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));  // so that a helper takes the other task
        } else {
            const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
            while (asked.load() < 3 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        }
    };
    for (int round = 0; round < 20 && asked.load() < 3; ++round) idcwh::pool::run(2, 2, task, &count);
    CHECK(asked.load() >= 3);

    const std::function<void()> stop = [&] {
        ++asked;
        throw std::runtime_error("enough");
    };
    bool stopped = false;
    for (int round = 0; round < 20 && !stopped; ++round) {
        asked.store(2);
        try {
            idcwh::pool::run(2, 2, task, &stop);
        } catch (const std::runtime_error&) {
            stopped = true;
        }
    }
    CHECK(stopped);
}

TEST("an executor of the program runs each task once") {
    std::atomic<int> runs{0};
    idcwh::set_executor([&](std::size_t tasks, unsigned, const std::function<void(std::size_t)>& body) {
        ++runs;
        std::thread other([&] {
            for (std::size_t task = 0; task < tasks; task += 2) body(task);
        });
        for (std::size_t task = 1; task < tasks; task += 2) body(task);
        other.join();
    });
    each_task_once(31, 4);
    CHECK(runs.load() == 1);
    bool caught = false;
    try {
        idcwh::pool::run(20, 2, [](std::size_t task) {
            if (task == 4) throw std::runtime_error("four");
        });
    } catch (const std::runtime_error&) {
        caught = true;
    }
    CHECK(caught);
    CHECK(runs.load() == 2);
    idcwh::set_executor({});
    each_task_once(31, 4);
    CHECK(runs.load() == 2);
}

TEST("each task runs once for any number of tasks and threads") {
    CHECK(idcwh::pool::available_threads() >= 1);
    for (const std::size_t tasks : {0, 1, 2, 7, 1000})
        for (const unsigned threads : {1, 2, 7, 40}) each_task_once(tasks, threads);
}

TEST("an exception of a task reaches the caller, and the pool works afterwards") {
    for (const unsigned threads : {1, 4}) {
        bool caught = false;
        try {
            idcwh::pool::run(100, threads, [](std::size_t task) {
                if (task == 13) throw std::runtime_error("thirteen");
            });
        } catch (const std::runtime_error& error) {
            caught = std::string(error.what()) == "thirteen";
        }
        CHECK(caught);
        each_task_once(50, threads);
    }
}

TEST("eight callers at once each get their tasks done") {
    std::vector<std::thread> callers;
    for (int i = 0; i < 8; ++i)
        callers.emplace_back([] {
            for (int round = 0; round < 200; ++round) each_task_once(20, 3);
        });
    for (auto& caller : callers) caller.join();
}

TEST("a task may use the pool itself") {
    std::atomic<int> total{0};
    idcwh::pool::run(4, 4, [&](std::size_t) { idcwh::pool::run(10, 4, [&](std::size_t) { total.fetch_add(1); }); });
    CHECK(total.load() == 40);
}

#if defined(__unix__)
TEST("a child after fork has a pool of its own") {
    each_task_once(1000, 4);  // so that the parent has threads
    const pid_t child = fork();
    if (child == 0) {
        each_task_once(1000, 4);
        _exit(check::failures.load() ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    each_task_once(1000, 4);
}
#endif

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
