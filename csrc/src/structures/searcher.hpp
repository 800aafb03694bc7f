// The interface of everything that answers searches over the same rows: the plain scan and each structure. The planner
// (index/planner.hpp) chooses one by its expected cost; no searcher hands a batch to another.
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

// What a searcher is asked to do, for the estimate of its cost.
struct Request {
    Work work;
    std::size_t nq;
    std::size_t wanted;      // k, or the radius
    unsigned bits;           // of a code
    std::size_t rows;        // that the searcher has
    std::size_t eligible;    // of these
    bool scattered = false;  // other rows may lie between the eligible ones
    double repeated = 0;     // mean share of the rows that equal one of them; 0: unknown
};

// Queries over rows. The arguments are checked: nq is at least 1, at least one row is eligible, k is at most the number
// of eligible rows, and the results have room.
struct Batch {
    Codes codes;
    const std::uint8_t* queries;
    std::size_t nq;
    SearchOptions options;
    std::size_t eligible;

    const std::uint8_t* query(std::size_t q) const { return queries + q * code_bytes(codes.bits); }
};

// The queries, ascending, whose search was given up because it cost more than expected. Their results are undefined,
// or empty in Hits.
using Unfinished = std::vector<std::size_t>;

class Searcher {
public:
    virtual ~Searcher() = default;

    virtual const char* name() const = 0;
    virtual std::string describe() const = 0;
    // Nanoseconds of one query of the request, on one thread. Infinite for work that it does not do.
    virtual double expected_ns(const Request& request) const = 0;

    // Each equals the function of search.hpp with the same name, and is called only where expected_ns() is finite.
    virtual Unfinished topk(const Batch& batch, std::size_t k, std::int32_t* distances, std::int64_t* ids) const = 0;
    virtual Hits radius(const Batch& batch, unsigned radius, Unfinished& unfinished) const = 0;
    virtual Unfinished count(const Batch& batch, unsigned radius, std::int64_t* counts) const = 0;
    virtual Hits topk_ties(const Batch&, std::size_t) const { throw not_supported(); }
    virtual void histogram(const Batch&, std::int64_t*) const { throw not_supported(); }
    virtual void rank(const Batch&, std::int32_t*, std::int64_t*) const { throw not_supported(); }

protected:
    static constexpr double infinite = std::numeric_limits<double>::infinity();

private:
    static std::logic_error not_supported() { return std::logic_error("the searcher does not do this work"); }
};

}  // namespace idcwh
