// From a Where, which speaks of ids and positions, to the rows that the engine searches.
#pragma once

#include <idcwh/index.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/contents.hpp"

namespace idcwh::detail {

// Not copied or moved: rows may point into it.
struct Selection {
    Selection(const Contents& contents, const Where& where);
    Selection(const Selection&) = delete;
    Selection& operator=(const Selection&) = delete;

    Rows rows;
    std::size_t eligible = 0;

    // The same selection of the rows [first, rows) alone, counted from first.
    Rows behind(std::size_t first, std::size_t end);

private:
    void select_ids(const Contents& contents, const Where& where);
    void select_id_range(const Contents& contents, const Where& where);
    void select_positions(const Contents& contents, const Where& where);
    void use_words(const Contents& contents);

    std::vector<std::int64_t> list_, list_behind_;
    std::vector<std::uint64_t> words_, words_behind_;
};

}  // namespace idcwh::detail
