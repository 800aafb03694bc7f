// Stopping a search that has begun: one Stop a call, asked once a block by every thread that works for it.
#pragma once

#include <idcwh/search.hpp>

#include <atomic>
#include <chrono>
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

    // What the calling thread does while it waits for the others: as check, but it throws nothing. The others see it.
    void poll() noexcept {
        if (!interrupt_ || stopped_.load(std::memory_order_relaxed)) return;
        if (due() && interrupt_->requested(interrupt_->context)) stopped_.store(true, std::memory_order_relaxed);
    }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr auto interval = std::chrono::milliseconds(5);
    static constexpr unsigned checks_a_look = 4;  // a look at the clock costs as much as scanning a hundred rows

    bool due() {
        const auto now = Clock::now();
        if (now - asked_ < interval) return false;
        asked_ = now;
        return true;
    }
    void ask() {
        poll();
        if (stopped_.load(std::memory_order_relaxed)) fail();
    }
    [[noreturn]] static void fail() { throw Error(ErrorCode::interrupted, "the search was interrupted"); }

    const Interrupt* interrupt_;
    std::thread::id caller_;
    std::atomic<bool> stopped_{false};
    Clock::time_point asked_;  // of the calling thread alone, as is the next
    unsigned checks_ = 0;
};

}  // namespace idcwh
