// The join as a searcher: many queries within a radius are compared with the codes bucket against bucket, instead of
// one after the other. The planner considers it where all other searchers take long.
#pragma once

#include "structures/searcher.hpp"

namespace idcwh {

class JoinSearch final : public Searcher {
public:
    static const JoinSearch& instance();

    // Nanoseconds of a search on one thread from which the join is considered: planning it reads a sample of the codes.
    static constexpr double least_ns = 2e8;

    const char* name() const override { return "join"; }
    std::string describe() const override { return "queries and codes are compared by buckets of their bits"; }
    // Infinite where comparing all codes is cheapest.
    double expected_ns(const Request& request) const override;

    Unfinished topk(const Batch&, std::size_t, std::int32_t*, std::int64_t*) const override { throw not_supported(); }
    Hits radius(const Batch& batch, unsigned radius, Unfinished& unfinished) const override;
    Unfinished count(const Batch& batch, unsigned radius, std::int64_t* counts) const override;
};

}  // namespace idcwh
