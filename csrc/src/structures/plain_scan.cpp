// See plain_scan.hpp.
#include "structures/plain_scan.hpp"

#include <algorithm>

#include "structures/cost.hpp"

namespace idcwh {

const PlainScan& PlainScan::instance() {
    static const PlainScan scan;
    return scan;
}

double PlainScan::expected_ns(const Request& request) const {
    std::size_t eligible = request.eligible;
    // A scan for the k nearest ends at the k-th code that equals the query. Repeated codes reach it early.
    if (request.work == Work::topk && request.repeated > 0)
        eligible = std::min(eligible, static_cast<std::size_t>(static_cast<double>(request.wanted) / request.repeated));
    const auto counted = static_cast<double>(request.eligible);
    const Codes codes{nullptr, request.rows, request.bits};
    switch (request.work) {
        case Work::histogram: return cost::scan_ns(codes, 1, eligible, request.scattered) + cost::add_ns * counted;
        case Work::rank:
            return cost::scan_ns(codes, 1, eligible, request.scattered) + cost::add_ns * counted +
                   cost::ranking_ns(request.eligible);
        default: return cost::scan_ns(codes, request.nq, eligible, request.scattered);
    }
}

Unfinished PlainScan::topk(const Batch& batch, std::size_t k, std::int32_t* distances, std::int64_t* ids) const {
    idcwh::topk(batch.codes, batch.queries, batch.nq, k, distances, ids, batch.options);
    return {};
}

Hits PlainScan::topk_ties(const Batch& batch, std::size_t k) const {
    return idcwh::topk_ties(batch.codes, batch.queries, batch.nq, k, batch.options);
}

Hits PlainScan::radius(const Batch& batch, unsigned radius, Unfinished&) const {
    return idcwh::radius(batch.codes, batch.queries, batch.nq, radius, batch.options);
}

Unfinished PlainScan::count(const Batch& batch, unsigned radius, std::int64_t* counts) const {
    idcwh::count(batch.codes, batch.queries, batch.nq, radius, counts, batch.options);
    return {};
}

void PlainScan::histogram(const Batch& batch, std::int64_t* counts) const {
    idcwh::histogram(batch.codes, batch.queries, batch.nq, counts, batch.options);
}

void PlainScan::rank(const Batch& batch, std::int32_t* distances, std::int64_t* ids) const {
    idcwh::rank(batch.codes, batch.queries, batch.nq, distances, ids, batch.options);
}

}  // namespace idcwh
