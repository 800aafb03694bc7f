// One searcher with the functions of search.hpp, for tests and benchmarks.
#pragma once

#include <idcwh/search.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "index/subsearch.hpp"

namespace check {

struct Searching {
    const idcwh::Searcher& searcher;
    idcwh::Codes codes;
    idcwh::SearchOptions options = {};

    idcwh::Batch batch(const std::uint8_t* queries, std::size_t nq) const {
        return {codes, queries, nq, options, idcwh::eligible(codes, options)};
    }

    std::size_t topk(const std::uint8_t* queries, std::size_t nq, std::size_t k, std::int32_t* distances,
                     std::int64_t* ids) const {
        const auto batch = this->batch(queries, nq);
        k = std::min(k, batch.eligible);
        if (k) idcwh::detail::run_topk(searcher, batch, k, distances, ids);
        return k;
    }
    idcwh::Hits topk_ties(const std::uint8_t* queries, std::size_t nq, std::size_t k) const {
        const auto batch = this->batch(queries, nq);
        k = std::min(k, batch.eligible);
        return k ? searcher.topk_ties(batch, k) : nothing(nq);
    }
    idcwh::Hits radius(const std::uint8_t* queries, std::size_t nq, unsigned radius) const {
        const auto batch = this->batch(queries, nq);
        return batch.eligible ? idcwh::detail::run_radius(searcher, batch, radius) : nothing(nq);
    }
    void count(const std::uint8_t* queries, std::size_t nq, unsigned radius, std::int64_t* counts) const {
        const auto batch = this->batch(queries, nq);
        if (batch.eligible) return idcwh::detail::run_count(searcher, batch, radius, counts);
        std::fill_n(counts, nq, 0);
    }
    void histogram(const std::uint8_t* queries, std::size_t nq, std::int64_t* counts) const {
        const auto batch = this->batch(queries, nq);
        if (batch.eligible) return searcher.histogram(batch, counts);
        std::fill_n(counts, nq * (codes.bits + 1), 0);
    }
    std::size_t rank(const std::uint8_t* queries, std::size_t nq, std::int32_t* distances, std::int64_t* ids) const {
        const auto batch = this->batch(queries, nq);
        if (batch.eligible) searcher.rank(batch, distances, ids);
        return batch.eligible;
    }

private:
    static idcwh::Hits nothing(std::size_t nq) { return {std::vector<std::int64_t>(nq + 1), {}, {}}; }
};

}  // namespace check
