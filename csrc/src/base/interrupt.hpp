// Stop: ends a running search if the caller requests it. Each call of a search has one, and so has each join. Every
// thread of the search checks it once per block.
#pragma once

#include <idcwh/search.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace idcwh {

// Only the calling thread calls the caller's Interrupt, every few milliseconds. The other threads read the result.
class Stop {
public:
    explicit Stop(const Interrupt* interrupt)
        : interrupt_(interrupt && interrupt->requested ? interrupt : nullptr),
          caller_(std::this_thread::get_id()),
          last_poll_(interrupt_ ? Clock::now() : Clock::time_point{}) {}
    Stop(const Stop&) = delete;
    Stop& operator=(const Stop&) = delete;

    // Makes the current thread the calling one, for a search that continues on another thread.
    void continue_here() { caller_ = std::this_thread::get_id(); }

    // Throws Error(interrupted) if the search must end.
    void check() {
        if (!interrupt_) return;
        if (stopped_.load(std::memory_order_relaxed)) fail();
        if (std::this_thread::get_id() == caller_ && ++checks_ % checks_per_poll == 0) poll();
    }

    // Returns a function for pool::run(), which polls while the calling thread waits for the others; or null.
    const std::function<void()>* while_waiting() const { return interrupt_ ? &poll_ : nullptr; }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr auto interval = std::chrono::milliseconds(4);  // too short for a user to notice
    static constexpr unsigned checks_per_poll = 4;  // reading the clock takes about as long as scanning 100 rows

    void poll() {
        if (stopped_.load(std::memory_order_relaxed)) return;  // already requested; other threads are still stopping
        const auto now = Clock::now();
        if (now - last_poll_ < interval) return;
        last_poll_ = now;
        if (!interrupt_->requested(interrupt_->context)) return;
        stopped_.store(true, std::memory_order_relaxed);
        fail();
    }
    [[noreturn]] static void fail() { throw Error(ErrorCode::interrupted, "the search was interrupted"); }

    const Interrupt* interrupt_;
    std::thread::id caller_;
    std::atomic<bool> stopped_{false};
    Clock::time_point last_poll_;  // this and checks_ are used by the calling thread only
    unsigned checks_ = 0;
    const std::function<void()> poll_{[this] { poll(); }};
};

}  // namespace idcwh
