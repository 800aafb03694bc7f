// Counts for retrieval metrics, from one exact pass over all pairs of a query and a database code.
//
//     const PairCounts counts = count_pairs({queries, Labels::of_classes(yq)},
//                                           {database, Labels::of_classes(yd)});
//     counts.items_of(q)[d];     // database items at distance d of query q
//     counts.relevant_of(q)[d];  // the relevant ones among them
//
// Precision, recall, average precision with exact treatment of ties, and precision within a radius are functions of
// these counts. docs/metrics.md has the formulas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search.hpp"

namespace idcwh {

// The labels of codes: a view of the caller's memory. An item has either one class or, if multi-label, a set of
// classes, which may be empty. Two items are relevant to each other if they share a class.
struct Labels {
    const std::int64_t* classes = nullptr;  // [size], any numbers
    // [size] rows of ceil(set_classes / 8) bytes. Class c is bit c % 8 of byte c / 8. The padding bits are zero.
    const std::uint8_t* sets = nullptr;
    std::size_t set_classes = 0;

    static Labels of_classes(const std::int64_t* classes) {
        Labels labels;
        labels.classes = classes;
        return labels;
    }
    static Labels of_sets(const std::uint8_t* sets, std::size_t classes) {
        Labels labels;
        labels.sets = sets, labels.set_classes = classes;
        return labels;
    }
};

struct LabelledCodes {
    Codes codes;
    Labels labels;
};

struct PairOptions {
    // Also computes ranked_sum and ranked_hits, from the ranking by (distance, row), for its first cuts[i] items. The
    // cuts ascend and are at least 1. Without it, each distinct code of the database is compared only once.
    bool ranked = false;
    const std::size_t* cuts = nullptr;  // [cut_count]
    std::size_t cut_count = 0;
    // Queries and database are the same memory, and each item is compared with all others but not with itself. Equal
    // queries then differ in the ranking of others, so ranked_sum and ranked_hits have one row per query.
    bool leave_one_out = false;
    unsigned threads = 0;  // 0: threads() of threads.hpp
    const Interrupt* interrupt = nullptr;
};

// The result of count_pairs(). Queries with equal code and label share a row of counts.
struct PairCounts {
    std::size_t distances = 0;           // bits + 1
    std::size_t cuts = 0;                // cut_count
    std::vector<std::int64_t> row;       // [queries], the row with a query's counts
    std::vector<std::int64_t> items;     // [rows][distances], database items at each distance
    std::vector<std::int64_t> relevant;  // [rows][distances], the relevant ones among them
    // With PairOptions::ranked. ranked_sum adds up (relevant items so far) / (rank, from 1) over the relevant items
    // among the first cuts[i]. Its last column covers all ranks. ranked_hits counts those relevant items. The rows are
    // those of `row`, or with PairOptions::leave_one_out the queries.
    std::vector<double> ranked_sum;         // [rows][cuts + 1]
    std::vector<std::int64_t> ranked_hits;  // [rows][cuts]

    const std::int64_t* items_of(std::size_t query) const { return items.data() + at(query) * distances; }
    const std::int64_t* relevant_of(std::size_t query) const { return relevant.data() + at(query) * distances; }

private:
    std::size_t at(std::size_t query) const { return static_cast<std::size_t>(row[query]); }
};

// Counts all pairs. Queries and database must have the same bits and the same form of labels. The result does not
// depend on the number of threads or the instruction set. Throws Error(unsupported) for 2^32 or more codes on a side.
// Needs O(database) additional memory per thread.
IDCWH_API PairCounts count_pairs(const LabelledCodes& queries, const LabelledCodes& database,
                                 const PairOptions& options = {});

// Returns the number of distinct codes. Throws Error(unsupported) for 2^32 or more codes.
IDCWH_API std::size_t count_distinct(const Codes& codes);

// Writes the number of codes in which two bits are both set: counts[bits][bits], symmetric. The diagonal counts each
// bit alone. The balance and the correlation of bits follow from it. Takes O(size * bits^2) time.
IDCWH_API void bit_pairs(const Codes& codes, std::int64_t* counts, unsigned threads = 0,
                         const Interrupt* interrupt = nullptr);

}  // namespace idcwh
