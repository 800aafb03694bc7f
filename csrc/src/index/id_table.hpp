// From ids to rows, for ids that do not ascend with the rows: a hash table of row numbers that one writer fills while
// any number of readers look up.
//
// A table knows rows of the future as well as of the past: a reader skips rows that its snapshot does not have. An id
// that was removed and added again is in it twice, and only one of the two rows is alive in any snapshot.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace idcwh {

class IdTable {
public:
    // With room for this many rows.
    explicit IdTable(std::size_t rows);

    std::size_t room() const { return (mask_ + 1) / 2; }
    std::size_t memory() const { return (mask_ + 1) * sizeof(std::atomic<std::uint64_t>); }

    // The writer's. ids[row] is there already.
    void insert(std::int64_t id, std::size_t row);

    // Calls found(row) for the rows below `rows` whose id this is, until it returns true.
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
