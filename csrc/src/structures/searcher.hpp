// The interface of the plain scan and of each structure. The planner (index/planner.hpp) chooses a searcher by its
// expected cost. No searcher passes a batch to another.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace idcwh {

enum class Work { topk, ties, radius, count, histogram, rank };

// A request, for the estimate of its cost.
struct Request {
    Work work;
    std::size_t nq;
    std::size_t wanted;                   // k or the radius
    unsigned bits;                        // code length
    std::size_t rows;                     // all rows of the searcher
    std::size_t eligible;                 // rows that may be returned
    bool scattered = false;               // other rows may be between the eligible ones
    double repeated = 0;                  // mean share of the rows that equal one of them; 0: unknown
    const std::uint8_t* codes = nullptr;  // the codes of all rows; null: unknown
};

// Queries over rows. The arguments are checked: nq >= 1, at least one row is eligible, k is at most the number of
// eligible rows, and the results have room.
struct Batch {
    Codes codes;
    const std::uint8_t* queries;
    std::size_t nq;
    SearchOptions options;
    std::size_t eligible;

    const std::uint8_t* query(std::size_t q) const { return queries + q * code_bytes(codes.bits); }
};

// The queries, ascending, that a searcher gave up because they cost more than expected. Their results are undefined, or
// empty in Hits.
using Unfinished = std::vector<std::size_t>;

class Searcher {
public:
    virtual ~Searcher() = default;

    virtual const char* name() const = 0;
    virtual std::string describe() const = 0;
    // Returns the nanoseconds per query on one thread. Infinite for work that the searcher does not support.
    virtual double expected_ns(const Request& request) const = 0;

    // Each function equals that of the same name in search.hpp. Called only if expected_ns() is finite.
    virtual Unfinished topk(const Batch& batch, std::size_t k, std::int32_t* distances, std::int64_t* ids) const = 0;
    virtual Hits radius(const Batch& batch, unsigned radius, Unfinished& unfinished) const = 0;
    virtual Unfinished count(const Batch& batch, unsigned radius, std::int64_t* counts) const = 0;
    virtual Hits topk_ties(const Batch&, std::size_t) const { throw not_supported(); }
    virtual void histogram(const Batch&, std::int64_t*) const { throw not_supported(); }
    virtual void rank(const Batch&, std::int32_t*, std::int64_t*) const { throw not_supported(); }

protected:
    static constexpr double infinite = std::numeric_limits<double>::infinity();
    static std::logic_error not_supported() { return std::logic_error("the searcher does not do this work"); }
};

}  // namespace idcwh
