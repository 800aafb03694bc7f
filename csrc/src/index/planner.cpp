// Which way a search takes: whatever is expected to be faster, a structure with a scan of the rows behind it, or a scan
// of all rows. A wrong guess costs time and nothing else.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "index/contents.hpp"
#include "index/structures.hpp"
#include "structures/cost.hpp"

namespace idcwh::detail {
namespace {

// A scan skips what a filter leaves out, but not for nothing: below a quarter of the rows it gathers them one by one.
double filtered(double share) { return std::min(1.0, 4 * share); }

double scan_ns(const Contents& contents, std::size_t first, const Request& request) {
    if (first >= contents.rows) return 0;
    const Codes codes{nullptr, contents.rows - first, contents.bits};
    const std::size_t nq = request.nq ? request.nq : 1;
    const double share = static_cast<double>(request.eligible) / static_cast<double>(contents.live);
    return cost::call_ns + (cost::scan_ns(codes, nq) / static_cast<double>(nq) - cost::call_ns) * filtered(share);
}

double structure_ns(const Contents& contents, const Request& request) {
    if (!contents.structures || request.eligible == 0) return std::numeric_limits<double>::infinity();
    return contents.structures->expected_ns(request, contents.live) +
           scan_ns(contents, contents.structures->covered, request);
}

}  // namespace

std::atomic<bool> always_structures{false};

bool structure_pays(const Contents& contents, const Request& request) {
    if (!contents.structures) return false;
    return structure_ns(contents, request) < scan_ns(contents, 0, request) ||
           always_structures.load(std::memory_order_relaxed);
}

std::vector<Path> paths(const Contents& contents, const Request& request) {
    std::vector<Path> list;
    std::string because =
        std::to_string(request.eligible) + " of " + std::to_string(contents.live) + " codes of " +
        std::to_string(contents.bytes()) + " bytes, " +
        (request.nq >= cost::batch ? "which the queries of a batch read together" : "read once a query");
    list.push_back({"scan", scan_ns(contents, 0, request), std::move(because)});
    if (contents.structures) {
        const StructureInfo info = contents.structures->info();
        because = info.detail;
        if (info.codes < contents.rows)
            because += "; " + std::to_string(contents.rows - info.codes) + " later codes are scanned";
        list.push_back({info.name, structure_ns(contents, request), std::move(because)});
        if (structure_pays(contents, request)) std::swap(list[0], list[1]);
    }
    return list;
}

}  // namespace idcwh::detail
