// The eligible rows of a search, counted and listed per group.
#pragma once

#include <idcwh/search.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scan/rows.hpp"
#include "structures/groups/groups.hpp"

namespace idcwh {

class GroupFilter {
public:
    enum class Needs { counts, places };
    // Counts the eligible rows in one pass over all rows. Listing their places, which begin() and end() return, takes a
    // second pass. `rows` must outlive the filter.
    GroupFilter(const Groups& groups, const RowSet& rows, Needs needs);
    GroupFilter(const GroupFilter&) = delete;
    GroupFilter& operator=(const GroupFilter&) = delete;

    const Groups& groups() const { return groups_; }
    std::size_t size() const { return rows_.count; }
    bool everything() const { return everything_; }
    std::uint32_t rows(Group group) const { return everything_ ? groups_.rows(group) : counts_[group]; }
    // Returns the eligible places of a group, ascending. No search steps over excluded rows, however many there are.
    const Place* begin(Group group) const {
        return everything_ ? groups_.begin(group) : &places_[ends_[group] - counts_[group]];
    }
    const Place* end(Group group) const { return everything_ ? groups_.end(group) : &places_[ends_[group]]; }
    // Calls use(place) for each eligible place, ascending.
    template <class Use>
    void each_place(Use use) const;

private:
    bool contains(std::size_t place) const {
        const std::size_t row = groups_.row(static_cast<Place>(place));
        if (bitmap_) return bitmap_[row / 64] >> (row % 64) & 1;
        return row >= rows_.begin && row < rows_.end;
    }

    const Groups& groups_;
    const RowSet& rows_;
    bool everything_;
    const std::uint64_t* bitmap_;       // eligible rows; null for a range
    std::vector<std::uint64_t> words_;  // the bitmap of a list of rows
    std::vector<std::uint32_t> counts_, ends_;
    std::vector<Place> places_;
};

template <class Use>
void GroupFilter::each_place(Use use) const {
    const std::size_t size = groups_.size();
    if (!groups_.ordered()) {
        for (std::size_t place = 0; place < size; ++place)
            if (contains(place)) use(place);
    } else if (rows_.kind == RowSet::Kind::range) {
        for (std::size_t row = rows_.begin; row < rows_.end; ++row) use(row);
    } else if (rows_.kind == RowSet::Kind::list) {
        for (std::size_t at = rows_.begin; at < rows_.end; ++at) use(static_cast<std::size_t>(rows_.list[at]));
    } else {
        for (std::size_t first = 0; first < size; first += 64) {
            std::uint64_t word = bitmap_[first / 64];
            if (size - first < 64) word &= (std::uint64_t{1} << (size - first)) - 1;
            for (; word; word &= word - 1) use(first + static_cast<std::size_t>(std::countr_zero(word)));
        }
    }
}

}  // namespace idcwh
