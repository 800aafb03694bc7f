// The pairs of distinct codes within the radius that one part finds, as tasks for threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "join/buckets.hpp"

namespace idcwh::join_detail {

// Two distinct codes: of a and of b, or of a with first < second in a self-join.
struct CodePair {
    std::uint32_t first, second;
    std::int32_t distance;
};

// One task: whole buckets of a, each with the buckets of b near it; or, where end_row is not 0, some rows of one bucket
// with some queries. Queries count the codes of the buckets near it, one bucket after another.
struct CompareTask {
    std::size_t bucket, end_bucket;
    std::size_t row, end_row;
    std::size_t query, end_query;
};

class Comparison {
public:
    // a and b are the same in a self-join.
    Comparison(const JoinPlan& plan, std::size_t part, const Distinct& a, const Distinct& b, unsigned radius,
               unsigned threads, Stop& stop);

    // Writes the next task. Returns false at the end.
    bool next(CompareTask& task);
    // Adds the pairs that a task finds, in an order that depends on the codes alone.
    void run(const CompareTask& task, std::vector<CodePair>& found, Stop& stop) const;

private:
    class Runner;
    bool self() const { return &a_ == &b_; }
    const Buckets& queries() const { return self() ? rows_ : queries_; }
    std::size_t near_codes(std::size_t bucket) const;
    bool found_before(const std::uint8_t* a, const std::uint8_t* b) const;

    const JoinPlan& plan_;
    std::size_t part_;
    const Distinct &a_, &b_;
    std::int32_t radius_;
    Buckets rows_, queries_;
    std::vector<std::uint32_t> masks_;              // differences of buckets near each other, smallest first
    std::size_t bucket_ = 0, row_ = 0, query_ = 0;  // the beginning of the next task
};

}  // namespace idcwh::join_detail
