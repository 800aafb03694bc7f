// From a Where, which speaks of ids and positions, to the rows of each segment that the engine searches.
#pragma once

#include <idcwh/index.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/view.hpp"

namespace idcwh::detail {

// What is eligible in one segment, which has to stay. Moved but not copied: rows may point into it.
struct Selection {
    // position: that of the segment's first code among those of all segments.
    Selection(const Segment& segment, const Where& where, std::size_t position);
    Selection(Selection&&) = default;
    Selection& operator=(Selection&&) = default;

    const Segment* segment;
    Rows rows;
    std::size_t eligible = 0;

    // The same selection of the rows behind the first ones alone, counted from `first`.
    Rows behind(std::size_t first);

private:
    void select_ids(const Where& where);
    void select_id_range(const Where& where);
    void select_positions(const Where& where, std::size_t position);
    void use_words();

    std::vector<std::int64_t> list_, list_behind_;
    std::vector<std::uint64_t> words_, words_behind_;
};

// What is eligible in all segments of a view.
struct Selections {
    // segments: those of the view, for searching or for ids only. Throws Error(invalid_argument) for a Where that does
    // not fit.
    Selections(const View& view, std::span<const Segment> segments, const Where& where);

    std::vector<Selection> each;  // where anything is eligible
    std::size_t eligible = 0;
};

}  // namespace idcwh::detail
