// Ids that a caller gives to codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_set>
#include <utility>
#include <vector>

namespace idcwh {

// Error(invalid_argument) unless all are >= 0, unique and new. taken: whether an id below next_id is in use; place:
// where, for the message.
void check_given_ids(const std::int64_t* ids, std::size_t count, std::uint64_t next_id,
                     const std::function<bool(std::int64_t)>& taken, const char* place);

// Ids given so far: runs of consecutive ones, and the rest one by one.
class GivenIds {
public:
    std::uint64_t next() const { return next_; }  // one more than the largest
    bool contains(std::int64_t id) const;
    // Nothing may have it yet.
    void insert(std::int64_t id);

private:
    std::uint64_t next_ = 0;
    std::vector<std::pair<std::int64_t, std::int64_t>> runs_;  // first and last, ascending
    std::unordered_set<std::int64_t> single_;
};

}  // namespace idcwh
