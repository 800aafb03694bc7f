// The eligible rows of each segment, computed from a Where of ids and positions.
#pragma once

#include <idcwh/index.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/view.hpp"

namespace idcwh::detail {

// The eligible rows of one segment. The segment must outlive this object. An object can be moved but not copied, since
// `rows` may point into it.
struct FilteredRows {
    // position: that of the segment's first code among the codes of all segments.
    FilteredRows(const Segment& segment, const Where& where, std::size_t position);
    FilteredRows(FilteredRows&&) = default;
    FilteredRows& operator=(FilteredRows&&) = default;

    const Segment* segment;
    Rows rows;
    std::size_t eligible = 0;

    // Returns the same selection of the rows from `first` on, counted from `first`.
    Rows behind(std::size_t first);

private:
    void select_ids(const Where& where);
    void select_id_range(const Where& where);
    void select_positions(const Where& where, std::size_t position);
    void use_words();

    std::vector<std::int64_t> list_, list_behind_;
    std::vector<std::uint64_t> words_, words_behind_;
};

// The eligible rows of all segments of a view.
struct FilteredView {
    // all: the segments of the view, ready for searches or for ids only. Throws Error(invalid_argument) if the Where
    // does not fit.
    FilteredView(const View& view, std::span<const Segment> all, const Where& where);

    std::vector<FilteredRows> segments;  // those with eligible rows
    std::size_t eligible = 0;
    std::size_t live;  // codes of the view
    unsigned bits;
};

}  // namespace idcwh::detail
