// See segment.hpp.
#include "index/segment.hpp"

#include <algorithm>

#include "index/id_table.hpp"
#include "structures/structures.hpp"

namespace idcwh::detail {

std::optional<std::size_t> Segment::row_of(std::int64_t id) const {
    std::size_t row = 0;
    if (!ids) {
        if (id < first_id || static_cast<std::uint64_t>(id - first_id) >= rows) return std::nullopt;
        row = static_cast<std::size_t>(id - first_id);
    } else if (ascending) {
        // With many segments, most do not hold the id.
        if (rows == 0 || id < ids[0] || id > ids[rows - 1]) return std::nullopt;
        const std::int64_t* at = std::lower_bound(ids, ids + rows, id);
        if (*at != id) return std::nullopt;
        row = static_cast<std::size_t>(at - ids);
    } else {
        const bool found = table->find(id, ids, rows, [&](std::size_t candidate) {
            row = candidate;
            return is_alive(candidate);
        });
        return found ? std::optional(row) : std::nullopt;
    }
    return is_alive(row) ? std::optional(row) : std::nullopt;
}

std::size_t Segment::memory() const {
    std::size_t sum = rows * bytes();
    if (ids) sum += rows * sizeof *ids;
    if (alive) sum += (rows + 63) / 64 * sizeof *alive;
    if (table) sum += table->memory();
    if (structures) sum += structures->memory();
    return sum;
}

}  // namespace idcwh::detail
