// One version of what an index holds, never changed once it is published; versions share the memory of their rows.
//
// Rows are physical: a removed code keeps its row, marked as dead, until a quarter of the rows are dead and they are
// compacted into a new version.
#pragma once

#include <idcwh/index.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "huge_array.hpp"
#include "index/id_table.hpp"

namespace idcwh::detail {

struct Structures;

// Rows are only ever appended: readers of earlier rows are not disturbed by a writer behind them.
using Buffer = HugeArray<std::uint8_t>;

struct Contents {
    unsigned bits = 0;
    std::size_t rows = 0;       // dead ones included
    std::size_t live = 0;       // what size() says
    std::uint64_t next_id = 0;  // one more than the largest id ever used
    bool ascending = true;      // ids ascend with the rows

    std::shared_ptr<Buffer> codes;
    std::shared_ptr<Buffer> ids;    // null: the id of a row is its number
    std::shared_ptr<Buffer> alive;  // a bit for each row that codes has room for, those to come set; null: none is dead
    std::shared_ptr<IdTable> table;  // null when ids ascend
    std::shared_ptr<const Structures> structures;

    std::size_t bytes() const { return code_bytes(bits); }
    const std::uint8_t* code(std::size_t row) const { return codes->data() + row * bytes(); }
    std::size_t room() const { return codes ? codes->size() / bytes() : 0; }
    const std::int64_t* id_data() const { return ids ? reinterpret_cast<const std::int64_t*>(ids->data()) : nullptr; }
    std::int64_t id(std::size_t row) const { return ids ? id_data()[row] : static_cast<std::int64_t>(row); }
    const std::uint64_t* alive_words() const {
        return alive ? reinterpret_cast<const std::uint64_t*>(alive->data()) : nullptr;
    }
    bool is_alive(std::size_t row) const { return !alive || alive_words()[row / 64] >> row % 64 & 1; }

    Codes view() const { return {codes ? codes->data() : nullptr, rows, bits}; }
    // The ids that the engine has to order by: none where the order of the rows is the same. It then finds rows, which
    // to_ids() turns into ids.
    const std::int64_t* order_ids() const { return ascending ? nullptr : id_data(); }
    void to_ids(std::int64_t* found, std::size_t count) const {
        if (!ascending || !ids) return;
        for (std::size_t i = 0; i < count; ++i) found[i] = id_data()[found[i]];
    }

    // The row of an id that is here.
    std::optional<std::size_t> row_of(std::int64_t id) const;
    std::size_t memory() const;
};

}  // namespace idcwh::detail
