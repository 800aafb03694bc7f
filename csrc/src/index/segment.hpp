// Contiguous rows as a search reads them.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace idcwh {
class IdTable;
}  // namespace idcwh

namespace idcwh::detail {

struct Structures;

// A view, whose memory its creator owns. A removed code keeps its row, which is marked as dead.
struct Segment {
    unsigned bits = 0;
    std::size_t rows = 0;  // including dead rows
    std::size_t live = 0;
    bool ascending = true;                   // ids ascend with the rows
    const std::uint8_t* codes = nullptr;     // [rows][bytes()], at any address
    const std::int64_t* ids = nullptr;       // [rows]; null: the id of a row is first_id + row
    std::int64_t first_id = 0;               // >= 0
    const std::uint64_t* alive = nullptr;    // one bit per row, at least (rows + 63) / 64 words; null: no row is dead
    const IdTable* table = nullptr;          // finds the rows of ids that do not ascend; null if they ascend
    const Structures* structures = nullptr;  // over the first rows; may be null

    std::size_t bytes() const { return code_bytes(bits); }
    const std::uint8_t* code(std::size_t row) const { return codes + row * bytes(); }
    std::int64_t id(std::size_t row) const { return ids ? ids[row] : first_id + static_cast<std::int64_t>(row); }
    bool is_alive(std::size_t row) const { return !alive || alive[row / 64] >> row % 64 & 1; }

    Codes view() const { return {codes, rows, bits}; }
    // Returns the ids that break ties, or null if the rows are in the order of their ids. A search then finds rows,
    // which to_ids() turns into ids.
    const std::int64_t* order_ids() const { return ascending ? nullptr : ids; }
    // Turns rows into ids. found[i] counts from row `first`.
    void to_ids(std::int64_t* found, std::size_t count, std::size_t first = 0) const {
        if (ids)
            for (std::size_t i = 0; i < count; ++i) found[i] = ids[first + static_cast<std::size_t>(found[i])];
        else if (const std::int64_t more = id(first))
            for (std::size_t i = 0; i < count; ++i) found[i] += more;
    }

    // Returns the row of an id that is alive in this segment.
    std::optional<std::size_t> row_of(std::int64_t id) const;
    // Returns the bytes of the rows, the table and the structures.
    std::size_t memory() const;
};

}  // namespace idcwh::detail
