// The plan of a search as text.
#include <cstdio>
#include <string>

#include "index/planner.hpp"

namespace idcwh {
namespace {

using detail::FilteredView;
using detail::View;

std::string duration(double nanoseconds) {
    char text[32];
    if (nanoseconds < 1e3)
        std::snprintf(text, sizeof text, "%.0f ns", nanoseconds);
    else if (nanoseconds < 1e6)
        std::snprintf(text, sizeof text, "%.3g us", nanoseconds / 1e3);
    else
        std::snprintf(text, sizeof text, "%.3g ms", nanoseconds / 1e6);
    return text;
}

Explanation explained(const View& view, const Where& where, const detail::SearchRequest& request) {
    Explanation explanation = detail::explain(FilteredView(view, view.segments(), where), request);
    view.check();
    return explanation;
}

}  // namespace

std::string Explanation::text() const {
    std::string text = chosen.name + ", about " + duration(chosen.nanoseconds) + " per query: " + chosen.because + "\n";
    for (const Path& path : others)
        text += "not " + path.name + ", about " + duration(path.nanoseconds) + ": " + path.because + "\n";
    return text;
}

Explanation Snapshot::explain_topk(std::size_t k, std::size_t nq, const Where& where) const {
    return explained(*view_, where, {Work::topk, nq, k});
}

Explanation Snapshot::explain_radius(unsigned radius, std::size_t nq, const Where& where) const {
    return explained(*view_, where, {Work::radius, nq, radius});
}

}  // namespace idcwh
