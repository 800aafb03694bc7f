// See contents.hpp.
#include "index/contents.hpp"

#include <algorithm>

#include "index/structures.hpp"

namespace idcwh::detail {

std::optional<std::size_t> Contents::row_of(std::int64_t id) const {
    std::size_t row = 0;
    if (!ids) {
        row = static_cast<std::size_t>(id);
        if (id < 0 || row >= rows) return std::nullopt;
    } else if (ascending) {
        const std::int64_t* at = std::lower_bound(id_data(), id_data() + rows, id);
        if (at == id_data() + rows || *at != id) return std::nullopt;
        row = static_cast<std::size_t>(at - id_data());
    } else {
        const bool found = table->find(id, id_data(), rows, [&](std::size_t candidate) {
            row = candidate;
            return is_alive(candidate);
        });
        return found ? std::optional(row) : std::nullopt;
    }
    return is_alive(row) ? std::optional(row) : std::nullopt;
}

std::size_t Contents::memory() const {
    std::size_t sum = 0;
    for (const auto& buffer : {codes, ids, alive})
        if (buffer) sum += buffer->size();
    if (table) sum += table->memory();
    if (structures) sum += structures->memory();
    return sum;
}

}  // namespace idcwh::detail
