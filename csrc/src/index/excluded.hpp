// The items that a search must not return, per query: found before the search, and removed from its results.
#pragma once

#include <idcwh/index.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/filtered_rows.hpp"

namespace idcwh::detail {

// The eligible ones of the excluded items of each query. A search finds most() more items than requested, and the
// excluded ones are then removed. So the result is exact, also among equal distances.
class Excluded {
public:
    // Throws Error(invalid_argument) if the ids are null.
    Excluded(const FilteredView& filtered, const std::uint8_t* queries, std::size_t nq, const QueryOptions& options);

    // Returns the largest number of eligible excluded items of a query.
    std::size_t most() const { return most_; }

    // Copies the first k others of each query's `width` results. A query with fewer gets the id -1 at the largest
    // distance. The outputs may be the inputs.
    void remove(const std::int32_t* distances, const std::int64_t* ids, std::size_t width, std::int32_t* out_distances,
                std::int64_t* out_ids, std::size_t k) const;
    void remove(Hits& hits) const;
    // Subtracts the excluded items from counts of all items within the radius [nq], or at each distance [nq][width].
    void subtract_within(unsigned radius, std::int64_t* counts) const;
    void subtract_at_each(std::size_t width, std::int64_t* counts) const;

private:
    struct Item {
        std::int64_t id;
        unsigned distance;
        bool operator<(const Item& other) const { return id < other.id; }
    };

    bool contains(std::size_t query, std::int64_t id) const;

    std::vector<Item> items_;         // [all queries], ascending ids per query
    std::vector<std::size_t> begin_;  // [nq + 1], start of each query's items; empty if nothing is excluded
    std::size_t most_ = 0;
};

}  // namespace idcwh::detail
