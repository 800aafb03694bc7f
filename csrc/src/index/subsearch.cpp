// See parts.hpp.
#include "index/subsearch.hpp"

#include <algorithm>

namespace idcwh::detail {
namespace {

// The rows that the structure covers, and the rows behind them.
void add_structure(std::vector<Part>& parts, Selection& selection, Part front) {
    const Segment& segment = *selection.segment;
    Part back = front;
    const std::size_t covered = segment.structures->covered;
    front.structures = segment.structures;
    front.codes.size = covered;
    front.eligible = std::min(front.eligible, covered);
    if (front.structures->by_row) front.options.ids = nullptr;
    Rows& rows = front.options.rows;
    if (rows.kind == Rows::Kind::list)
        rows.count = static_cast<std::size_t>(
            std::lower_bound(rows.list, rows.list + rows.count, static_cast<std::int64_t>(covered)) - rows.list);
    parts.push_back(front);
    if (covered == segment.rows) return;
    back.first = covered;
    back.codes = {segment.code(covered), segment.rows - covered, segment.bits};
    back.eligible = std::min(back.eligible, back.codes.size);
    back.options.rows = selection.behind(covered);
    if (back.options.ids) back.options.ids += covered;
    parts.push_back(back);
}

}  // namespace

std::vector<Part> parts_of(Selections& selections, const Request& request, const QueryOptions& options,
                           unsigned threads) {
    std::vector<Part> parts;
    parts.reserve(selections.each.size() + 1);
    for (Selection& selection : selections.each) {
        const Segment& segment = *selection.segment;
        Part whole{segment.view(), {}, &segment, 0, selection.eligible, nullptr};
        whole.options.ids = segment.order_ids();
        whole.options.rows = selection.rows;
        whole.options.threads = options.threads ? options.threads : threads;
        whole.options.interrupt = options.interrupt;
        if (structure_pays(segment, request.of_part(selection.eligible, cost::scattered(selection.rows))))
            add_structure(parts, selection, whole);
        else
            parts.push_back(whole);
    }
    return parts;
}

}  // namespace idcwh::detail
