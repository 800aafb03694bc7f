// See planner.hpp. A wrong estimate costs time but never changes a result.
#include "index/planner.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "join/join_search.hpp"
#include "structures/cost.hpp"
#include "structures/groups/groups.hpp"
#include "structures/plain_scan.hpp"
#include "structures/structures.hpp"

namespace idcwh::detail {

std::atomic<bool> always_structures{false};

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
    request.codes = segment.codes;
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
    return {&PlainScan::instance(), filtered.segment->rows, scan_ns(request_of(filtered, search), 0), false};
}

// Returns the cheapest searcher of the segment's structure, if one does this work.
Choice structured(const FilteredRows& filtered, const SearchRequest& search) {
    Choice best{nullptr, 0, std::numeric_limits<double>::infinity(), true};
    const Structures* const structures = filtered.segment->structures;
    if (!structures || filtered.eligible == 0) return best;
    const Request request = request_of(filtered, search);
    const double rest = scan_ns(request, structures->covered);
    for (const auto& searcher : structures->searchers)
        if (const double ns = searcher->expected_ns(request) + rest; ns < best.nanoseconds)
            best = {searcher.get(), structures->covered, ns, true};
    return best;
}

// The searchers for one segment. Those of `structure` and `join` are null where there is none.
struct Choices {
    Choice scan, structure, join;

    Choice best() const {
        Choice choice = scan;
        if (structure.nanoseconds < choice.nanoseconds) choice = structure;
        if (join.nanoseconds < choice.nanoseconds) choice = join;
        return choice;
    }
};

Choices choices_of(const FilteredRows& filtered, const SearchRequest& search) {
    Choices choices{plain(filtered, search),
                    structured(filtered, search),
                    {nullptr, 0, std::numeric_limits<double>::infinity(), false}};
    if (always_structures.load(std::memory_order_relaxed)) {
        if (choices.structure.searcher) choices.structure.nanoseconds = 0;
    } else if (choices.best().nanoseconds * static_cast<double>(search.nq) >= JoinSearch::least_ns) {
        const JoinSearch& join = JoinSearch::instance();
        // A join takes up to 2.3 times as long as its plan expects (benchmarks/many_queries.py, Zen 3).
        constexpr double margin = 2.3;
        const double ns = margin * join.expected_ns(request_of(filtered, search));
        if (ns < std::numeric_limits<double>::infinity()) choices.join = {&join, filtered.segment->rows, ns, false};
    }
    return choices;
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

Choice choose(const FilteredRows& filtered, const SearchRequest& search) { return choices_of(filtered, search).best(); }

Explanation explain(const FilteredView& filtered, const SearchRequest& search) {
    std::vector<Choice> chosen;
    std::vector<Choices> choices;
    for (const FilteredRows& rows : filtered.segments) {
        choices.push_back(choices_of(rows, search));
        chosen.push_back(choices.back().best());
    }
    Explanation explanation{path_of(filtered, chosen, search), {}};
    // A segment without a structure, or without a join, is scanned on their paths.
    for (const auto kind : {&Choices::scan, &Choices::structure, &Choices::join}) {
        std::vector<Choice> path;
        bool any = false, other = false;
        for (std::size_t i = 0; i < choices.size(); ++i) {
            const Choice& choice = choices[i].*kind;
            any = any || choice.searcher;
            path.push_back(choice.searcher ? choice : choices[i].scan);
            other = other || path.back().searcher != chosen[i].searcher;
        }
        if (any && other) explanation.others.push_back(path_of(filtered, path, search));
    }
    return explanation;
}

}  // namespace idcwh::detail
