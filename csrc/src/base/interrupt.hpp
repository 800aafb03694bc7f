// Stopping a search that has begun: one Stop a call, asked once a block by every thread that works for it.
#pragma once

#include <idcwh/search.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace idcwh {

// Only the thread that called asks the caller's Interrupt, and that every few milliseconds; the others learn of it
// here.
class Stop {
public:
    explicit Stop(const Interrupt* interrupt)
        : interrupt_(interrupt && interrupt->requested ? interrupt : nullptr),
          caller_(std::this_thread::get_id()),
          asked_(interrupt_ ? Clock::now() : Clock::time_point{}) {}
    Stop(const Stop&) = delete;
    Stop& operator=(const Stop&) = delete;

    // Throws Error(interrupted) when the search is to end.
    void check() {
        if (!interrupt_) return;
        if (stopped_.load(std::memory_order_relaxed)) fail();
        if (std::this_thread::get_id() == caller_ && ++checks_ % checks_a_look == 0) ask();
    }

    // For pool::run: asks while the calling thread waits for the others.
    const std::function<void()>* while_waiting() const { return interrupt_ ? &ask_ : nullptr; }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr auto interval = std::chrono::milliseconds(4);
    static constexpr unsigned checks_a_look = 4;  // a look at the clock costs as much as scanning a hundred rows

    void ask() {
        if (stopped_.load(std::memory_order_relaxed)) return;  // it said yes, and the others have yet to see it
        const auto now = Clock::now();
        if (now - asked_ < interval) return;
        asked_ = now;
        if (!interrupt_->requested(interrupt_->context)) return;
        stopped_.store(true, std::memory_order_relaxed);
        fail();
    }
    [[noreturn]] static void fail() { throw Error(ErrorCode::interrupted, "the search was interrupted"); }

    const Interrupt* interrupt_;
    std::thread::id caller_;
    std::atomic<bool> stopped_{false};
    Clock::time_point asked_;  // of the calling thread alone, as is the next
    unsigned checks_ = 0;
    const std::function<void()> ask_{[this] { ask(); }};
};

}  // namespace idcwh
