// See planner.hpp. A wrong estimate costs time but never changes a result.
#include "index/planner.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "structures/cost.hpp"
#include "structures/groups/groups.hpp"
#include "structures/plain_scan.hpp"
#include "structures/structures.hpp"

namespace idcwh::detail {
namespace {

// Returns the request for one segment.
Request request_of(const FilteredRows& filtered, const SearchRequest& search) {
    const Segment& segment = *filtered.segment;
    const bool within = search.work == Work::radius || search.work == Work::count;
    Request request{search.work,
                    search.nq,
                    within ? search.wanted : std::min(search.wanted, filtered.eligible),
                    segment.bits,
                    segment.rows,
                    filtered.eligible,
                    cost::scattered(filtered.rows)};
    // Groups first count the eligible rows per group. This may cost more than a scan that soon has k codes equal to the
    // query.
    if (segment.structures && segment.structures->groups && filtered.eligible < segment.live)
        request.repeated = segment.structures->groups->repeated();
    return request;
}

// Returns the cost of a scan of the rows from `first` on, with the same share of eligible rows as the whole segment.
double scan_ns(Request request, std::size_t first) {
    if (first >= request.rows) return 0;
    const double share = static_cast<double>(request.rows - first) / static_cast<double>(request.rows);
    request.eligible = static_cast<std::size_t>(static_cast<double>(request.eligible) * share);
    request.rows -= first;
    return PlainScan::instance().expected_ns(request);
}

Choice plain(const FilteredRows& filtered, const SearchRequest& search) {
    return {&PlainScan::instance(), filtered.segment->rows, scan_ns(request_of(filtered, search), 0)};
}

// Returns the cheapest searcher of the segment's structure, if one does this work.
Choice structured(const FilteredRows& filtered, const SearchRequest& search) {
    Choice best{nullptr, 0, std::numeric_limits<double>::infinity()};
    const Structures* const structures = filtered.segment->structures;
    if (!structures || filtered.eligible == 0) return best;
    const Request request = request_of(filtered, search);
    const double rest = scan_ns(request, structures->covered);
    for (const auto& searcher : structures->searchers)
        if (const double ns = searcher->expected_ns(request) + rest; ns < best.nanoseconds)
            best = {searcher.get(), structures->covered, ns};
    return best;
}

// Returns the path of a search over all segments.
Path path_of(const FilteredView& filtered, const std::vector<Choice>& choices, const SearchRequest& search) {
    Path path{"", 0, ""};
    std::vector<std::string> names;
    std::size_t scanned = 0;
    for (std::size_t i = 0; i < choices.size(); ++i) {
        const Choice& choice = choices[i];
        const Segment& segment = *filtered.segments[i].segment;
        path.nanoseconds += choice.nanoseconds;
        if (choice.searcher == &PlainScan::instance()) {
            scanned += segment.rows;
            continue;
        }
        scanned += segment.rows - choice.rows;
        path.because += (path.because.empty() ? "" : "; ") + choice.searcher->describe();
        const std::string name = choice.searcher->name();
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    const bool several = choices.size() > 1;
    if (names.empty()) {
        path.name = "scan";
        path.because = std::to_string(filtered.eligible) + " of " + std::to_string(filtered.live) + " codes of " +
                       std::to_string(code_bytes(filtered.bits)) + " bytes, " +
                       (search.nq >= cost::batch ? "read by several queries at once" : "read once per query");
        if (several) path.because += ", in " + std::to_string(choices.size()) + " segments";
        return path;
    }
    for (const std::string& name : names) path.name += (path.name.empty() ? "" : " and ") + name;
    if (scanned)
        path.because += "; " + std::to_string(scanned) + (several ? " other" : " later") + " codes are scanned";
    return path;
}

}  // namespace

std::atomic<bool> always_structures{false};

Choice choose(const FilteredRows& filtered, const SearchRequest& search) {
    const Choice scan = plain(filtered, search), structure = structured(filtered, search);
    const bool always = structure.searcher && always_structures.load(std::memory_order_relaxed);
    return always || structure.nanoseconds < scan.nanoseconds ? structure : scan;
}

Explanation explain(const FilteredView& filtered, const SearchRequest& search) {
    std::vector<Choice> chosen, scans, structures;
    bool any_chosen = false, any_structure = false;
    for (const FilteredRows& rows : filtered.segments) {
        chosen.push_back(choose(rows, search));
        scans.push_back(plain(rows, search));
        structures.push_back(structured(rows, search));
        any_chosen = any_chosen || chosen.back().searcher != scans.back().searcher;
        any_structure = any_structure || structures.back().searcher;
        if (!structures.back().searcher) structures.back() = scans.back();
    }
    Explanation explanation{path_of(filtered, chosen, search), {}};
    if (any_chosen)
        explanation.others.push_back(path_of(filtered, scans, search));
    else if (any_structure)
        explanation.others.push_back(path_of(filtered, structures, search));
    return explanation;
}

}  // namespace idcwh::detail
