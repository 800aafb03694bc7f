// Multi-index hashing: exact search among many codes that reads only buckets in which near codes can be.
//
// A code is cut into substrings. Choose search radii t_i, one per substring, with sum(t_i + 1) > r. By the general
// pigeonhole principle, a code at distance r of the query is within t_i of it in at least one substring i. Each
// substring has a table with one bucket per value. A search visits shells: the shell of radius d in a table is all
// buckets whose values differ from the query's in d bits. The next shell is the cheapest one. The
// search ends when sum(t_i + 1) exceeds the largest distance still wanted.
//
// Codes of at most 64 bits: the first table is the primary. Its entries are codes and row numbers: per bucket, in row
// order, the bits that follow substring 0 and the row. An entry of another table is only substring 0 of a code: three
// bytes per code, instead of the code and its row. Substring 0 must be near too, so this is enough for the kernels to
// reject nearly all entries. Each of the few remaining entries leads to a look-up of its bucket in the primary. So a
// table needs little memory and few random reads.
//
// Longer codes: an entry of each table is the next substring and the row (ring.hpp). The codes stay in the caller's
// memory.
//
// Terms, as in Norouzi, Punjani, Fleet (Fast exact search in Hamming space with multi-index hashing, 2014):
//   substring   a field of consecutive bits of a code; the paper has m of them, of equal length
//   table       the hash table of one substring
//   bucket      the codes with one value of a substring; an entry is a code in it
//   radius      the search radius of a substring: its buckets up to this distance are visited; the paper's floor(r / m)
//   shell       the buckets at one distance from the query's substring; the paper enumerates them in the same way
//   candidate   a code that a bucket has led to, before its full distance is known
// Radii that differ by substring follow Qin et al. (GPH: Similarity search in Hamming space, 2018).
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

// The tables of one set of codes, immutable. Codes of more than 64 bits are not copied: the caller keeps them
// unchanged.
class MultiIndex {
public:
    // Returns null for less than 65,536 codes, 2^32 codes or more, less than 8 bits, or too little memory (bytes).
    // For wide codes it indexes as many bits as fit into the memory.
    static std::unique_ptr<MultiIndex> build(const Codes& codes, std::size_t memory, unsigned threads,
                                             const Interrupt* interrupt);

    std::size_t size() const { return tables_.size; }
    std::size_t memory() const;
    std::string describe() const;

    // Passes each row within sink.limit() of the query to the sink, once, in any order.
    //   std::int32_t limit() const                   the largest distance still wanted; may only shrink
    //   std::int32_t limit_from(std::size_t) const   optional: the same for this row and all after it. Smaller where
    //                                                ties go to earlier rows
    //   void take(std::size_t row, std::int32_t distance)
    // Returns false if the search stopped early; the sink then has a part of the rows. It stops if a scan, which costs
    // scan_ns, is estimated to be cheaper, or if the allowance of this index is spent. With infinite scan_ns it never
    // stops early. Before the first close match the remaining cost is overestimated, so the cost check starts only
    // after patience_ns.
    template <class Sink>
    bool search(const Codes& codes, const std::uint8_t* query, Sink& sink, double scan_ns,
                double patience_ns = 0) const {
        multi::SinkReceiver<Sink> receiver(sink);
        return run(codes, query, receiver, scan_ns, patience_ns);
    }

    // The mean cost of a query that is one of the codes, for the k nearest of the eligible rows and for a radius.
    double expected_ns_topk(std::size_t k, std::size_t eligible) const;
    double expected_ns_radius(unsigned radius) const;

private:
    bool run(const Codes& codes, const std::uint8_t* query, multi::Receiver& receiver, double scan_ns,
             double patience_ns) const;
    void sample(const Codes& codes);
    double unsampled_ns() const;

    multi::Tables tables_;
    std::vector<double> topk_ns_;    // mean over a sample, for k = 1, 10, 100 ...
    std::vector<double> radius_ns_;  // the same for radius 0, 1, 2 ...
    mutable cost::Allowance allowance_;
};

}  // namespace idcwh
