// A multi-index over all rows as a searcher: k nearest, radius and counts.
#pragma once

#include "structures/multi_index/multi_index.hpp"
#include "structures/searcher.hpp"

namespace idcwh {

class MultiIndexSearch final : public Searcher {
public:
    explicit MultiIndexSearch(const MultiIndex& index) : index_(index) {}

    const char* name() const override { return "multi-index"; }
    std::string describe() const override { return index_.describe(); }
    double expected_ns(const Request& request) const override;

    Unfinished topk(const Batch& batch, std::size_t k, std::int32_t* distances, std::int64_t* ids) const override;
    Hits radius(const Batch& batch, unsigned radius, Unfinished& unfinished) const override;
    Unfinished count(const Batch& batch, unsigned radius, std::int64_t* counts) const override;

private:
    const MultiIndex& index_;
};

}  // namespace idcwh
