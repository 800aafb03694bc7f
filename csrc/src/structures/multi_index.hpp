// Multi-index hashing: exact search among many codes by looking only where near ones can be.
//
// A code is cut into chunks. A code at distance r of the query is, in at least one chunk i, within t_i of it, whatever
// thresholds t_i with sum(t_i + 1) > r are chosen (the general pigeonhole principle). Each chunk has a table of its
// values, and a search enumerates, in the table where it is cheapest at the moment, the values that differ from the
// query's in 0, 1, 2 ... bits, until sum(t_i + 1) exceeds the largest distance still wanted.
//
// The first table, the primary, has codes and row numbers: for each value of chunk 0, in row order, the bits that
// follow chunk 0 (all of them up to 64 bits a code) and the row. The others hold for each value of their chunk just the
// values of chunk 0 of the codes that have it: three bytes a code, instead of the code and its row. That is enough to
// turn nearly all candidates away as they are streamed through the kernels, because chunk 0 must be near too; for the
// few that are left, the bucket of the primary is looked up. So a table costs little memory and no random reads.
//
// Norouzi, Punjani, Fleet: Fast exact search in Hamming space with multi-index hashing, 2014. Qin et al.: GPH, 2018.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "multi_index_search.hpp"
#include "multi_index_table.hpp"

namespace idcwh {

// Immutable. The rows of codes are not copied where they have more than 64 bits: the caller keeps them as they are.
class MultiIndex {
public:
    // Null when the codes are too few (below 65,536) or too many (2^32 or more), too short (below 8 bits), or when
    // memory (bytes) does not suffice.
    static std::unique_ptr<MultiIndex> build(const Codes& codes, std::size_t memory, unsigned threads,
                                             const Interrupt* interrupt);

    std::size_t size() const { return tables_.size; }
    std::size_t memory() const;
    std::string describe() const;

    // Gives each row within sink.limit() of the query to the sink, once, in any order.
    //   std::int32_t limit() const                   the largest distance still wanted; may only shrink
    //   std::int32_t limit_from(std::size_t) const   optional: the same for this row and all after it (where equal
    //                                                distances are wanted in row order, later rows may not be)
    //   void take(std::size_t row, std::int32_t distance)
    // False when it gave up because the rest would cost more than what is left of budget_ns: then the sink has a part.
    // Until it has found something near, the rest looks dear; so much as patience_ns is spent without asking whether it
    // is.
    template <class Sink>
    bool search(const Codes& codes, const std::uint8_t* query, Sink& sink, double budget_ns,
                double patience_ns = 0) const {
        multi::SinkReceiver<Sink> receiver(sink);
        return multi::search(tables_, codes, query, receiver, budget_ns, patience_ns);
    }

    // What a query costs that is like the codes (one of them), k nearest of unfiltered rows; and within a radius.
    double expected_ns_topk(std::size_t k) const;
    double expected_ns_radius(unsigned radius) const;

private:
    void sample(const Codes& codes);
    double dear() const;

    multi::Tables tables_;
    std::vector<double> topk_ns_;    // for k = 1, 10, 100 ...: the mean over a sample
    std::vector<double> radius_ns_;  // for radius 0, 1, 2 ...
};

// Exact, and equal to the functions of the same name in search.hpp: what looks cheaper by a scan is scanned, and
// queries that gave up are scanned together at the end.
std::size_t topk(const MultiIndex& index, const Codes& codes, const std::uint8_t* queries, std::size_t nq,
                 std::size_t k, std::int32_t* distances, std::int64_t* ids, const SearchOptions& options = {});
Hits radius(const MultiIndex& index, const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
            const SearchOptions& options = {});
void count(const MultiIndex& index, const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
           std::int64_t* counts, const SearchOptions& options = {});

}  // namespace idcwh
