// The pool: every task once, exceptions come back, many callers at the same time, and a child after fork.
#include "pool.hpp"

#include <atomic>
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

}  // namespace

int main() {
    CHECK(idcwh::pool::available_threads() >= 1);
    for (const std::size_t tasks : {0, 1, 2, 7, 1000})
        for (const unsigned threads : {1, 2, 7, 40}) each_task_once(tasks, threads);

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

    std::vector<std::thread> callers;
    for (int i = 0; i < 8; ++i)
        callers.emplace_back([] {
            for (int round = 0; round < 200; ++round) each_task_once(20, 3);
        });
    for (auto& caller : callers) caller.join();

    // A task may itself use the pool.
    std::atomic<int> total{0};
    idcwh::pool::run(4, 4, [&](std::size_t) { idcwh::pool::run(10, 4, [&](std::size_t) { total.fetch_add(1); }); });
    CHECK(total.load() == 40);

#if defined(__unix__)
    const pid_t child = fork();
    if (child == 0) {
        each_task_once(1000, 4);
        _exit(check::failures ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    each_task_once(1000, 4);
#endif
    return check::finish();
}
