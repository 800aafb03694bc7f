// See given_ids.hpp.
#include "given_ids.hpp"

#include <idcwh/error.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace idcwh {
namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

}  // namespace

void check_given_ids(const std::int64_t* ids, std::size_t count) {
    bool ascending = true;
    for (std::size_t i = 0; i < count; ++i) {
        if (ids[i] < 0) fail("ids must be >= 0, not " + std::to_string(ids[i]));
        ascending &= i == 0 || ids[i - 1] < ids[i];
    }
    if (ascending) return;
    std::vector<std::int64_t> sorted(ids, ids + count);
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) fail("ids must be unique, but " + std::to_string(*twice) + " is given twice");
}

}  // namespace idcwh
