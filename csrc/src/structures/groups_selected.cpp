// See groups_selected.hpp.
#include "groups_selected.hpp"

#include <bit>

namespace idcwh {

Selected::Selected(const Groups& groups, const RowSet& rows)
    : groups_(groups), rows_(rows), everything_(rows.count == groups.size()), bitmap_(rows.bitmap) {
    if (everything_) return;
    if (rows.kind == RowSet::Kind::list) {
        words_.resize((groups.size() + 63) / 64);
        for (std::size_t at = rows.begin; at < rows.end; ++at)
            words_[static_cast<std::size_t>(rows.list[at]) / 64] |= std::uint64_t{1} << (rows.list[at] % 64);
        bitmap_ = words_.data();
    }
    counts_.resize(groups.distinct());
    count_rows();
}

void Selected::count_rows() {
    const std::size_t size = groups_.size();
    groups_.with_group_of([&](const auto* group_of) {
        if (!groups_.ordered()) {
            for (std::size_t place = 0; place < size; ++place)
                if (contains(static_cast<Place>(place))) ++counts_[group_of[place]];
        } else if (rows_.kind == RowSet::Kind::range) {
            for (std::size_t row = rows_.begin; row < rows_.end; ++row) ++counts_[group_of[row]];
        } else if (rows_.kind == RowSet::Kind::list) {
            for (std::size_t at = rows_.begin; at < rows_.end; ++at) ++counts_[group_of[rows_.list[at]]];
        } else {
            for (std::size_t first = 0; first < size; first += 64) {
                std::uint64_t word = bitmap_[first / 64];
                if (size - first < 64) word &= (std::uint64_t{1} << (size - first)) - 1;
                for (; word; word &= word - 1)
                    ++counts_[group_of[first + static_cast<std::size_t>(std::countr_zero(word))]];
            }
        }
    });
}

}  // namespace idcwh
