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
// A chunk is their substring, a threshold their search radius per substring. The shell of radius r is all buckets whose
// values differ from the query's substring in r bits. A candidate is a code that some bucket has led to.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "structures/cost.hpp"
#include "structures/multi_index/search.hpp"
#include "structures/multi_index/table.hpp"

namespace idcwh {

// Immutable. The rows of codes are not copied where they have more than 64 bits: the caller keeps them as they are.
class MultiIndex {
public:
    // Null when the codes are too few (below 65,536) or too many (2^32 or more), too short (below 8 bits), or when
    // memory (bytes) does not suffice. Of wide codes it indexes as many bits as the memory suffices for.
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
    // False when it gave up, because a scan, which costs scan_ns, looked cheaper, or because it had spent what the
    // allowance of this index gives: then the sink has a part. Infinite scan_ns: it never gives up. Before the first
    // close match the remaining cost is overestimated, so the cost check starts only after patience_ns.
    template <class Sink>
    bool search(const Codes& codes, const std::uint8_t* query, Sink& sink, double scan_ns,
                double patience_ns = 0) const {
        multi::SinkReceiver<Sink> receiver(sink);
        return run(codes, query, receiver, scan_ns, patience_ns);
    }

    // The mean cost of a query that is one of the codes: the k nearest of so many eligible rows; and within a radius.
    double expected_ns_topk(std::size_t k, std::size_t eligible) const;
    double expected_ns_radius(unsigned radius) const;

private:
    bool run(const Codes& codes, const std::uint8_t* query, multi::Receiver& receiver, double scan_ns,
             double patience_ns) const;
    void sample(const Codes& codes);
    double dear() const;

    multi::Tables tables_;
    std::vector<double> topk_ns_;    // for k = 1, 10, 100 ...: the mean over a sample
    std::vector<double> radius_ns_;  // for radius 0, 1, 2 ...: the same
    mutable cost::Allowance allowance_;
};

}  // namespace idcwh
