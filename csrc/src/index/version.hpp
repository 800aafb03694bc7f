// One version of the contents of an index, immutable once published. Versions share the memory of their rows.
// A removed code keeps its row, marked as dead. Once a quarter of the rows are dead, they are compacted into a new
// version.
#pragma once

#include <idcwh/index.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/huge_array.hpp"
#include "index/id_table.hpp"
#include "index/segment.hpp"

namespace idcwh::detail {

// Rows are only appended, so a writer does not disturb readers of earlier rows.
using Buffer = HugeArray<std::uint8_t>;

struct Contents {
    unsigned bits = 0;
    std::size_t rows = 0;       // including dead rows
    std::size_t live = 0;       // live rows, which size() returns
    std::uint64_t next_id = 0;  // one more than the largest id ever used
    bool ascending = true;      // ids ascend with the rows

    std::shared_ptr<Buffer> codes;
    std::shared_ptr<Buffer> ids;     // null: the id of a row is its number
    std::shared_ptr<Buffer> alive;   // one bit per row of capacity, set for rows to come; null: no row is dead
    std::shared_ptr<IdTable> table;  // null if ids ascend
    std::shared_ptr<const Structures> structures;

    std::size_t bytes() const { return code_bytes(bits); }
    std::size_t room() const { return codes ? codes->size() / bytes() : 0; }
    const std::int64_t* id_data() const { return ids ? reinterpret_cast<const std::int64_t*>(ids->data()) : nullptr; }

    // Returns the rows as a search reads them. Valid as long as this version exists.
    Segment segment() const;
    std::size_t memory() const;
};

}  // namespace idcwh::detail
