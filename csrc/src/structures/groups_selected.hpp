// Which rows a search may return, and how many of each group they are.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../rows.hpp"
#include "groups.hpp"

namespace idcwh {

class Selected {
public:
    // Where rows are left out, this is one pass over the others. `rows` is read for as long as this lives.
    Selected(const Groups& groups, const RowSet& rows);
    Selected(const Selected&) = delete;
    Selected& operator=(const Selected&) = delete;

    const Groups& groups() const { return groups_; }
    std::size_t size() const { return rows_.count; }
    bool everything() const { return everything_; }
    std::uint32_t rows(Group group) const { return everything_ ? groups_.rows(group) : counts_[group]; }
    bool contains(Place place) const {
        if (everything_) return true;
        const std::size_t row = groups_.row(place);
        if (bitmap_) return bitmap_[row / 64] >> (row % 64) & 1;
        return row >= rows_.begin && row < rows_.end;
    }

private:
    void count_rows();

    const Groups& groups_;
    const RowSet& rows_;
    bool everything_;
    const std::uint64_t* bitmap_;       // of the rows, unless they are a range
    std::vector<std::uint64_t> words_;  // the bitmap, where they are a list
    std::vector<std::uint32_t> counts_;
};

}  // namespace idcwh
