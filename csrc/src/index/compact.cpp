// See compact.hpp.
#include "index/compact.hpp"

#include <algorithm>
#include <cstring>

namespace idcwh::detail {
namespace {

// Calls body(begin, end) for each run of live rows.
template <class Body>
void each_run(const Segment& segment, Body body) {
    for (std::size_t row = 0; row < segment.rows;) {
        if (!segment.is_alive(row)) {
            ++row;
            continue;
        }
        std::size_t end = row + 1;
        while (end < segment.rows && segment.is_alive(end)) ++end;
        body(row, end);
        row = end;
    }
}

}  // namespace

bool wants_compaction(const Contents& contents) {
    const std::size_t dead = contents.rows - contents.live;
    return contents.live == 0 || (dead > contents.rows / 4 && dead >= 256);
}

Contents compacted(const Contents& contents) {
    Contents result;
    result.bits = contents.bits;
    result.next_id = contents.next_id;
    result.rows = result.live = contents.live;
    if (contents.live == 0) return result;
    const std::size_t bytes = contents.bytes();
    result.codes = std::make_shared<Buffer>(contents.live * bytes);
    result.ids = std::make_shared<Buffer>(contents.live * sizeof(std::int64_t));
    auto* ids = reinterpret_cast<std::int64_t*>(result.ids->data());
    const Segment segment = contents.segment();
    std::size_t at = 0;
    each_run(segment, [&](std::size_t begin, std::size_t end) {
        std::memcpy(result.codes->data() + at * bytes, segment.code(begin), (end - begin) * bytes);
        for (std::size_t row = begin; row < end; ++row) ids[at++] = segment.id(row);
    });
    result.ascending = contents.ascending || std::is_sorted(ids, ids + result.rows);
    if (!result.ascending) {
        result.table = std::make_shared<IdTable>(result.rows);
        for (std::size_t row = 0; row < result.rows; ++row) result.table->insert(ids[row], row);
    } else if (ids[0] == 0 && ids[result.rows - 1] == static_cast<std::int64_t>(result.rows) - 1) {
        result.ids.reset();  // the ids are the row numbers
    }
    return result;
}

}  // namespace idcwh::detail
