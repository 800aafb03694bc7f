// A hash table from ids to rows, for ids that do not ascend with the rows. One writer fills it while readers look up.
// A reader skips rows that its snapshot does not have yet. An id that was removed and added again has two entries, and
// only one of the two rows is alive in any snapshot.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace idcwh {

class IdTable {
public:
    // Allocates room for this many rows.
    explicit IdTable(std::size_t rows);

    std::size_t room() const { return (mask_ + 1) / 2; }
    std::size_t memory() const { return (mask_ + 1) * sizeof(std::atomic<std::uint64_t>); }

    // Adds an entry; only the writer may call it. ids[row] is already stored.
    void insert(std::int64_t id, std::size_t row);

    // Calls found(row) for the rows below `rows` that have this id, until it returns true.
    template <class Found>
    bool find(std::int64_t id, const std::int64_t* ids, std::size_t rows, Found found) const {
        for (std::size_t at = hash(id) & mask_;; at = (at + 1) & mask_) {
            const std::uint64_t entry = slots_[at].load(std::memory_order_acquire);
            if (entry == 0) return false;
            const std::size_t row = entry - 1;
            if (row < rows && ids[row] == id && found(row)) return true;
        }
    }

private:
    static std::size_t hash(std::int64_t id) {
        std::uint64_t x = static_cast<std::uint64_t>(id);  // the finalizer of splitmix64
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        return static_cast<std::size_t>(x ^ x >> 31);
    }

    std::size_t mask_;
    std::unique_ptr<std::atomic<std::uint64_t>[]> slots_;  // row + 1; 0: empty
};

}  // namespace idcwh
