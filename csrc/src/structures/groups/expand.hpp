// The expansion of the groups that a query found to rows, in the order (distance, id).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "structures/groups/sinks.hpp"

namespace idcwh {

// The expander of one thread, which reuses its memory between queries.
class Expander {
public:
    // ids: those of the rows; null: row numbers.
    Expander(const GroupFilter& selected, const std::int64_t* ids) : selected_(selected), ids_(ids) {}

    // Writes the first `take` rows of these groups, which hold at least as many. Reads no more of a group at the last
    // distance than can be needed, however large it is.
    void expand(const std::vector<GroupHit>& hits, std::size_t take, std::int32_t* distances, std::int64_t* ids);

private:
    void by_distance(const std::vector<GroupHit>& hits);
    void put(Place place);
    void put_first(Group group, std::size_t take);
    void put_sorted(const GroupHit* begin, const GroupHit* end, std::size_t take);
    void put_lowest(const GroupHit* begin, const GroupHit* end, std::size_t take);

    const GroupFilter& selected_;
    const std::int64_t* ids_;
    std::int64_t* out_ = nullptr;
    std::vector<GroupHit> hits_;
    std::vector<std::size_t> begins_;
    std::vector<Place> places_, spare_;
    struct Run {
        Place at;  // the lowest place left
        const Place *next, *end;
    };
    std::vector<Run> runs_;
};

}  // namespace idcwh
