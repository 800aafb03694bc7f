// Telling a person how a search would run.
#include <cstdio>
#include <string>

#include "index/filtered_rows.hpp"
#include "structures/structures.hpp"

namespace idcwh {
namespace {

using detail::Request;
using detail::Selections;
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

Explanation explained(const View& view, const Where& where, const Request& request) {
    const Selections selections(view, view.segments(), where);
    auto paths = detail::paths(view, selections, request.of_part(selections.eligible, false));
    view.check();
    Explanation explanation{std::move(paths.front()), {}};
    explanation.others.assign(std::make_move_iterator(paths.begin() + 1), std::make_move_iterator(paths.end()));
    return explanation;
}

}  // namespace

std::string Explanation::text() const {
    std::string text = chosen.name + ", about " + duration(chosen.nanoseconds) + " a query: " + chosen.because + "\n";
    for (const Path& path : others)
        text += "not " + path.name + ", about " + duration(path.nanoseconds) + ": " + path.because + "\n";
    return text;
}

Explanation Snapshot::explain_topk(std::size_t k, std::size_t nq, const Where& where) const {
    return explained(*view_, where, {Work::topk, nq, k, 0});
}

Explanation Snapshot::explain_radius(unsigned radius, std::size_t nq, const Where& where) const {
    return explained(*view_, where, {Work::radius, nq, radius, 0});
}

}  // namespace idcwh
