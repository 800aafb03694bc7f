// The plain scan (scan/) as a searcher, which finishes every query. Every other searcher is compared with it.
#pragma once

#include "structures/searcher.hpp"

namespace idcwh {

class PlainScan final : public Searcher {
public:
    static const PlainScan& instance();

    const char* name() const override { return "scan"; }
    std::string describe() const override { return "all rows are scanned"; }
    double expected_ns(const Request& request) const override;

    Unfinished topk(const Batch& batch, std::size_t k, std::int32_t* distances, std::int64_t* ids) const override;
    Hits topk_ties(const Batch& batch, std::size_t k) const override;
    Hits radius(const Batch& batch, unsigned radius, Unfinished& unfinished) const override;
    Unfinished count(const Batch& batch, unsigned radius, std::int64_t* counts) const override;
    void histogram(const Batch& batch, std::int64_t* counts) const override;
    void rank(const Batch& batch, std::int32_t* distances, std::int64_t* ids) const override;
};

}  // namespace idcwh
