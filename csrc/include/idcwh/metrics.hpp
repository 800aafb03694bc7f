// What retrieval metrics are made of: one exact pass over all pairs of a query and a database code.
//
//     const PairCounts counts = count_pairs({queries, Labels::of_classes(yq)}, {database, Labels::of_classes(yd)});
//     counts.items_of(q)[d], counts.relevant_of(q)[d];     // how many lie at distance d of query q
//
// Precision, recall, average precision (with ties treated exactly) and lookup within a radius all follow from these two
// rows of counts: docs/metrics.md has the formulas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search.hpp"

namespace idcwh {

// The labels of codes, a view of the caller's memory: one class an item, or a set of classes, which may be empty. Two
// items are relevant to each other when they share a class.
struct Labels {
    const std::int64_t* classes = nullptr;  // [size], any numbers
    const std::uint8_t* sets = nullptr;     // [size] rows of ceil(set_classes / 8) bytes: bit c % 8 of byte c / 8
    std::size_t set_classes = 0;            //   for class c; the padding bits are zero

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
    // Whether to look at the order (distance, row) as well: ranked_sum and ranked_hits, for the first cuts[i] of it.
    // The cuts ascend and are at least 1. Without, a database whose codes repeat costs only as many comparisons as it
    // has distinct codes.
    bool ranked = false;
    const std::size_t* cuts = nullptr;
    std::size_t cut_count = 0;
    unsigned threads = 0;  // 0: as many as the process may run on (threads.hpp)
    const Interrupt* interrupt = nullptr;
};

// Queries with the same code and the same label share a row of counts.
struct PairCounts {
    std::size_t distances = 0;           // bits + 1
    std::size_t cuts = 0;                // cut_count
    std::vector<std::int64_t> row;       // [queries] the row that holds a query's counts
    std::vector<std::int64_t> items;     // [rows][distances] database items at each distance
    std::vector<std::int64_t> relevant;  // [rows][distances] those of them that are relevant
    // With PairOptions::ranked, from the order (distance, row): the sum, over the relevant items among the first
    // cuts[i], of (relevant items so far) / (rank, from 1), and how many they are. The last sum is over all.
    std::vector<double> ranked_sum;         // [rows][cuts + 1]
    std::vector<std::int64_t> ranked_hits;  // [rows][cuts]

    const std::int64_t* items_of(std::size_t query) const { return items.data() + at(query) * distances; }
    const std::int64_t* relevant_of(std::size_t query) const { return relevant.data() + at(query) * distances; }

private:
    std::size_t at(std::size_t query) const { return static_cast<std::size_t>(row[query]); }
};

// Counts all pairs. Both sides have the same bits and the same form of labels; fewer than 2^32 codes each (more is
// Error(unsupported)). The result does not depend on threads or instruction set. Memory besides the result: O(database)
// a thread.
IDCWH_API PairCounts count_pairs(const LabelledCodes& queries, const LabelledCodes& database,
                                 const PairOptions& options = {});

// How many different codes there are; fewer than 2^32 codes.
IDCWH_API std::size_t count_distinct(const Codes& codes);

// In how many codes two bits are both set: counts[bits][bits], symmetric; on the diagonal, how often each one is. Their
// balance and their correlation follow. Time: size x bits^2.
IDCWH_API void bit_pairs(const Codes& codes, std::int64_t* counts, unsigned threads = 0,
                         const Interrupt* interrupt = nullptr);

}  // namespace idcwh
