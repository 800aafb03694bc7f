// See id_table.hpp.
#include "index/id_table.hpp"

#include <algorithm>
#include <bit>

namespace idcwh {

IdTable::IdTable(std::size_t rows)
    : mask_(2 * std::bit_ceil(std::max<std::size_t>(rows, 32)) - 1),
      slots_(std::make_unique<std::atomic<std::uint64_t>[]>(mask_ + 1)) {}

void IdTable::insert(std::int64_t id, std::size_t row) {
    std::size_t at = hash(id) & mask_;
    while (slots_[at].load(std::memory_order_relaxed)) at = (at + 1) & mask_;
    slots_[at].store(row + 1, std::memory_order_release);
}

}  // namespace idcwh
