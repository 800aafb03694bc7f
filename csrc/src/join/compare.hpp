// The pairs of codes within the radius that one part of a plan finds, as tasks for threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "join/buckets.hpp"

namespace idcwh::join_detail {

// Two codes: of a and of b, or of a with first < second in a self-join.
struct CodePair {
    std::uint32_t first, second;
    std::int32_t distance;
};

// The repeats of codes: code i occurs begins[i + 1] - begins[i] times. Null if every code occurs once.
struct Repeats {
    const std::uint32_t *a = nullptr, *b = nullptr;
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
    // self: a and b are the same.
    Comparison(const JoinPlan& plan, std::size_t part, const Codes& a, const Codes& b, bool self, unsigned radius,
               unsigned threads, Stop& stop);

    // Writes the next task. Returns false at the end.
    bool next(CompareTask& task);
    // Adds the pairs that a task finds, in an order that depends on the codes alone.
    void run(const CompareTask& task, std::vector<CodePair>& found, Stop& stop) const;
    // Returns the number of these pairs, each as often as its codes repeat.
    std::uint64_t count(const CompareTask& task, const Repeats& repeats, Stop& stop) const;

private:
    template <class Sink>
    class Runner;
    template <class Sink>
    void run_into(const CompareTask& task, Sink& sink, Stop& stop) const;
    void copy_heads(unsigned threads, Stop& stop);
    const Buckets& queries() const { return self_ ? rows_ : queries_; }
    std::size_t near_codes(std::size_t bucket) const;
    bool found_before(const std::uint8_t* a, const std::uint8_t* b) const;

    const JoinPlan& plan_;
    std::size_t part_;
    unsigned bits_;
    bool self_;
    std::int32_t radius_;
    Buckets rows_, queries_;
    std::size_t head_bytes_ = 0;                    // 0: no heads
    HugeArray<std::uint8_t> heads_;                 // the first bytes of each row, in the order of rows_
    std::vector<std::uint32_t> masks_;              // differences of buckets near each other, smallest first
    std::size_t bucket_ = 0, row_ = 0, query_ = 0;  // the beginning of the next task
};

// The pairs of all parts of a plan, some tasks at a time.
class PairFinder {
public:
    // Plans the join. Codes and stop outlive it. self: a and b are the same.
    PairFinder(const Codes& a, const Codes& b, bool self, unsigned radius, unsigned threads, Stop& stop);

    const JoinPlan& plan() const { return plan_; }
    // Replaces `found` by the pairs of the next tasks, one list per task, in order. Returns false at the end. Must not
    // be called after an exception.
    bool next(std::vector<std::vector<CodePair>>& found);
    // Returns the number of the pairs that are left, each as often as its codes repeat.
    std::uint64_t count(const Repeats& repeats);

private:
    std::vector<CompareTask> next_tasks();

    bool self_, swapped_;  // swapped: b is the larger side, and the first for the plan
    Codes more_, fewer_;
    JoinPlan plan_;
    unsigned radius_, threads_;
    Stop& stop_;
    std::unique_ptr<Comparison> comparison_;
    std::size_t part_ = 0, batch_ = threads_;
};

}  // namespace idcwh::join_detail
