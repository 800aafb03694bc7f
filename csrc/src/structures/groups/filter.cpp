// See filter.hpp.
#include "structures/groups/filter.hpp"

#include <numeric>

namespace idcwh {

GroupFilter::GroupFilter(const Groups& groups, const RowSet& rows, Needs needs)
    : groups_(groups), rows_(rows), everything_(rows.count == groups.size()), bitmap_(rows.bitmap) {
    if (everything_) return;
    if (rows.kind == RowSet::Kind::list && !groups.ordered()) {
        words_.resize((groups.size() + 63) / 64);
        for (std::size_t at = rows.begin; at < rows.end; ++at)
            words_[static_cast<std::size_t>(rows.list[at]) / 64] |= std::uint64_t{1} << (rows.list[at] % 64);
        bitmap_ = words_.data();
    }
    counts_.resize(groups.distinct());
    groups.with_group_of(
        [&](const auto* group_of) { each_place([&](std::size_t place) { ++counts_[group_of[place]]; }); });
    if (needs == Needs::counts) return;
    ends_.resize(groups.distinct());
    std::exclusive_scan(counts_.begin(), counts_.end(), ends_.begin(), std::uint32_t{0});
    places_.resize(rows.count + 1);  // one more, so that the end of the last group can be addressed
    groups.with_group_of([&](const auto* group_of) {
        each_place([&](std::size_t place) { places_[ends_[group_of[place]]++] = static_cast<Place>(place); });
    });
}

}  // namespace idcwh
