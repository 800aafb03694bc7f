// Publishes versions of a value one after another. Readers take the current version without waiting for the writer or
// each other.
// One atomic word holds the current slot and the number of readers that have taken it, so taking is a single addition.
// A reader that has finished adds one to the slot's balance. When the writer publishes the next version, it subtracts
// the number of readers of the old one. The thread that then brings the balance to zero frees the version.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace idcwh {

template <class T>
class Versions {
public:
    struct Held {
        const T* value;
        std::size_t slot;
    };

    explicit Versions(std::unique_ptr<const T> first) { current_.store(word(std::move(first))); }
    ~Versions() {
        for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
    }
    Versions(const Versions&) = delete;
    Versions& operator=(const Versions&) = delete;

    Held take() {
        const auto slot = static_cast<std::size_t>(current_.fetch_add(1, std::memory_order_acq_rel) >> readers_bits);
        return {at(slot).value.get(), slot};
    }
    void give_back(std::size_t slot) {
        if (at(slot).balance.fetch_add(1, std::memory_order_acq_rel) + 1 == 0) clear(slot);
    }

    // Returns the newest version. Only one writer at a time may call this or replace the version. Throws std::bad_alloc
    // if too many versions are held; the newest then stays.
    const T& newest() {
        return *at(static_cast<std::size_t>(current_.load(std::memory_order_acquire) >> readers_bits)).value;
    }
    void publish(std::unique_ptr<const T> value) {
        const std::uint64_t old = current_.exchange(word(std::move(value)), std::memory_order_acq_rel);
        const auto slot = static_cast<std::size_t>(old >> readers_bits);
        const auto takers = static_cast<std::int64_t>(old & ((std::uint64_t{1} << readers_bits) - 1));
        if (at(slot).balance.fetch_sub(takers, std::memory_order_acq_rel) == takers) clear(slot);
    }

private:
    struct Slot {
        std::atomic<std::int64_t> balance{0};  // readers that returned it, minus all readers once their number is known
        std::atomic<bool> used{false};
        std::unique_ptr<const T> value;
    };
    static constexpr unsigned readers_bits = 48;
    static constexpr std::size_t chunk_slots = 256;

    Slot& at(std::size_t slot) {
        return chunks_[slot / chunk_slots].load(std::memory_order_acquire)[slot % chunk_slots];
    }

    // Returns the word of a new version: its slot and no readers yet.
    std::uint64_t word(std::unique_ptr<const T> value) {
        return std::uint64_t{place(std::move(value))} << readers_bits;
    }

    std::size_t place(std::unique_ptr<const T> value) {
        for (std::size_t c = 0; c < chunks_.size(); ++c) {
            Slot* chunk = chunks_[c].load(std::memory_order_relaxed);
            if (!chunk) chunks_[c].store(chunk = new Slot[chunk_slots], std::memory_order_release);
            for (std::size_t i = 0; i < chunk_slots; ++i) {
                if (chunk[i].used.load(std::memory_order_acquire)) continue;
                chunk[i].used.store(true, std::memory_order_relaxed);
                chunk[i].value = std::move(value);
                return c * chunk_slots + i;
            }
        }
        throw std::bad_alloc();  // 65,536 old versions are still held
    }

    void clear(std::size_t slot) {
        Slot& cleared = at(slot);
        cleared.value.reset();
        cleared.balance.store(0, std::memory_order_relaxed);
        cleared.used.store(false, std::memory_order_release);
    }

    std::atomic<std::uint64_t> current_{0};
    std::array<std::atomic<Slot*>, 256> chunks_{};
};

}  // namespace idcwh
