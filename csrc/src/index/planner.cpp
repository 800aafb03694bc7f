// Which way a search takes: whatever is expected to be faster, a structure with a scan of the rows behind it, or a scan
// of all rows. A wrong guess costs time and nothing else.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "index/filtered_rows.hpp"
#include "structures/cost.hpp"
#include "structures/groups/groups.hpp"
#include "structures/structures.hpp"

namespace idcwh::detail {
namespace {

double scan_ns(const Segment& segment, std::size_t first, const Request& request) {
    if (first >= segment.rows) return 0;
    const std::size_t rows = segment.rows - first;
    // As many of these as of all rows are eligible.
    auto eligible = static_cast<std::size_t>(static_cast<double>(request.eligible) * static_cast<double>(rows) /
                                             static_cast<double>(segment.rows));
    // Groups first count what a filter leaves of each; a scan for the k nearest ends at the first k codes that are
    // equal to the query, which among repeated codes are soon found.
    const Groups* const groups = segment.structures ? segment.structures->groups.get() : nullptr;
    if (groups && request.work == Work::topk && request.eligible < segment.live)
        eligible =
            std::min(eligible, static_cast<std::size_t>(static_cast<double>(request.wanted) / groups->repeated()));
    return cost::plain_ns(request.work, {nullptr, rows, segment.bits}, std::max<std::size_t>(request.nq, 1), eligible,
                          request.scattered);
}

double structure_ns(const Segment& segment, const Request& request) {
    if (!segment.structures || request.eligible == 0) return std::numeric_limits<double>::infinity();
    return segment.structures->expected_ns(request) + scan_ns(segment, segment.structures->covered, request);
}

// Scans of all segments.
Path scans(const View& view, const Selections& selections, const Request& request) {
    Path path{"scan", 0, ""};
    for (const Selection& part : selections.each)
        path.nanoseconds += scan_ns(*part.segment, 0, request.of_part(part.eligible, cost::scattered(part.rows)));
    path.because = std::to_string(selections.eligible) + " of " + std::to_string(view.live) + " codes of " +
                   std::to_string(code_bytes(view.bits)) + " bytes, " +
                   (request.nq >= cost::batch ? "which the queries of a batch read together" : "read once a query");
    if (selections.each.size() > 1) path.because += ", in " + std::to_string(selections.each.size()) + " segments";
    return path;
}

// Structures where uses(segment) says so, and scans of the rest.
template <class Uses>
Path with_structures(const Selections& selections, const Request& request, Uses uses) {
    Path path{"", 0, ""};
    std::vector<std::string> names;
    std::size_t scanned = 0;
    for (const Selection& part : selections.each) {
        const Segment& segment = *part.segment;
        const Request asked = request.of_part(part.eligible, cost::scattered(part.rows));
        if (!uses(segment, asked)) {
            path.nanoseconds += scan_ns(segment, 0, asked);
            scanned += segment.rows;
            continue;
        }
        path.nanoseconds += structure_ns(segment, asked);
        const StructureInfo info = segment.structures->info();
        scanned += segment.rows - info.codes;
        path.because += (path.because.empty() ? "" : "; ") + info.detail;
        if (std::find(names.begin(), names.end(), info.name) == names.end()) names.push_back(info.name);
    }
    for (const std::string& name : names) path.name += (path.name.empty() ? "" : " and ") + name;
    if (scanned)
        path.because +=
            "; " + std::to_string(scanned) + (selections.each.size() > 1 ? " other" : " later") + " codes are scanned";
    return path;
}

}  // namespace

std::atomic<bool> always_structures{false};

bool structure_pays(const Segment& segment, const Request& request) {
    if (!segment.structures) return false;
    return structure_ns(segment, request) < scan_ns(segment, 0, request) ||
           always_structures.load(std::memory_order_relaxed);
}

std::vector<Path> paths(const View& view, const Selections& selections, const Request& request) {
    const auto any = [&](auto uses) {
        return std::any_of(selections.each.begin(), selections.each.end(), [&](const Selection& part) {
            return uses(*part.segment, request.of_part(part.eligible, cost::scattered(part.rows)));
        });
    };
    const auto there = [](const Segment& segment, const Request&) { return segment.structures != nullptr; };
    const Path scan = scans(view, selections, request);
    if (any(structure_pays)) return {with_structures(selections, request, structure_pays), scan};
    if (any(there)) return {scan, with_structures(selections, request, there)};
    return {scan};
}

}  // namespace idcwh::detail
