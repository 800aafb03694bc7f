// See given_ids.hpp.
#include "base/given_ids.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/fail.hpp"

namespace idcwh {

void check_given_ids(const std::int64_t* ids, std::size_t count, std::uint64_t next_id,
                     const std::function<bool(std::int64_t)>& taken, const char* place) {
    bool ascending = true;
    for (std::size_t i = 0; i < count; ++i) {
        if (ids[i] < 0) fail({.path = "ids", .found = std::to_string(ids[i]), .expected = "at least 0"});
        ascending &= i == 0 || ids[i - 1] < ids[i];
    }
    if (!ascending) {
        std::vector<std::int64_t> sorted(ids, ids + count);
        std::sort(sorted.begin(), sorted.end());
        const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
        if (twice != sorted.end()) fail({.path = "ids", .problem = std::to_string(*twice) + " is given twice"});
    }
    for (std::size_t i = 0; i < count; ++i)
        if (static_cast<std::uint64_t>(ids[i]) < next_id && taken(ids[i]))
            fail({.path = "ids", .problem = std::to_string(ids[i]) + " already exists in the " + place});
}

}  // namespace idcwh
