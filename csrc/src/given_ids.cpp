// See given_ids.hpp.
#include "given_ids.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "fail.hpp"

namespace idcwh {

void check_given_ids(const std::int64_t* ids, std::size_t count, std::uint64_t next_id,
                     const std::function<bool(std::int64_t)>& taken, const char* place) {
    bool ascending = true;
    for (std::size_t i = 0; i < count; ++i) {
        if (ids[i] < 0) fail("ids must be >= 0, not " + std::to_string(ids[i]));
        ascending &= i == 0 || ids[i - 1] < ids[i];
    }
    if (!ascending) {
        std::vector<std::int64_t> sorted(ids, ids + count);
        std::sort(sorted.begin(), sorted.end());
        const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
        if (twice != sorted.end()) fail("ids must be unique, but " + std::to_string(*twice) + " is given twice");
    }
    for (std::size_t i = 0; i < count; ++i)
        if (static_cast<std::uint64_t>(ids[i]) < next_id && taken(ids[i]))
            fail("ids must be new, but " + std::to_string(ids[i]) + " is in the " + place + " already");
}

bool GivenIds::contains(std::int64_t id) const {
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), id,
                                        [](std::int64_t value, const auto& run) { return value < run.first; });
    return (after != runs_.begin() && id <= std::prev(after)->second) || single_.contains(id);
}

void GivenIds::insert(std::int64_t id) {
    if (static_cast<std::uint64_t>(id) < next_) {
        single_.insert(id);
        return;
    }
    if (!runs_.empty() && runs_.back().second == id - 1)
        runs_.back().second = id;
    else
        runs_.push_back({id, id});
    next_ = static_cast<std::uint64_t>(id) + 1;
}

}  // namespace idcwh
