// What a search of a view reads: parts that are each searched in one way, one after the other.
#pragma once

#include <idcwh/index.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/filtered_rows.hpp"
#include "structures/structures.hpp"

namespace idcwh::detail {

// Rows of a segment. They may point into the selection that they were made from.
struct Part {
    Codes codes;
    SearchOptions options;
    const Segment* segment;
    std::size_t first;             // the row of the segment that is its first
    std::size_t eligible;          // at most so many rows
    const Structures* structures;  // null: a scan

    // What was found turns into ids.
    void to_ids(std::int64_t* found, std::size_t count) const {
        if (!options.ids) segment->to_ids(found, count, first);
    }
};

// The parts where anything is eligible. threads: for options that do not say.
std::vector<Part> parts_of(Selections& selections, const Request& request, const QueryOptions& options,
                           unsigned threads);

}  // namespace idcwh::detail
