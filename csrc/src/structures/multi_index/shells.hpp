// In which order the shells of a query are visited, and what they cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "structures/multi_index/table.hpp"

namespace idcwh::multi {

// Nanoseconds on Zen 3 with memory far larger than the caches (csrc/bench/multi_index.cpp).
inline constexpr double bucket_ns = 28;     // finding a bucket and copying a short one
inline constexpr double count_ns = 3;       // reading only how many entries a bucket has
inline constexpr double entry_ns = 0.5;     // streaming one of its entries through the kernels
inline constexpr double lookup_ns = 110;    // a bucket of the primary that another table's entry leads to
inline constexpr double candidate_ns = 15;  // an entry near enough: has it been seen, and where is it
inline constexpr double found_ns = 25;      // one not seen before: its row is read, and the sink takes it
inline constexpr double measure_ns = 80;    // a code of more than 64 bits, which lies in the caller's memory

// All values that differ from a chunk's value in `distance` bits, a few at a time, in ascending order of the
// difference.
class Shell {
public:
    Shell(std::uint32_t value, unsigned width, unsigned distance)
        : value_(value), mask_((std::uint64_t{1} << distance) - 1), end_(std::uint64_t{1} << width) {}

    // Writes up to `most` values and returns how many; 0 at the end.
    std::size_t next(std::uint32_t* values, std::size_t most) {
        std::size_t count = 0;
        while (count < most && mask_ < end_) {
            values[count++] = value_ ^ static_cast<std::uint32_t>(mask_);
            if (mask_ == 0) {
                mask_ = end_;
                break;
            }
            // The next larger number with as many bits set.
            const std::uint64_t low = mask_ & (~mask_ + 1), carried = mask_ + low;
            mask_ = carried | ((mask_ ^ carried) >> (2 + __builtin_ctzll(mask_)));
        }
        return count;
    }

private:
    std::uint32_t value_;
    std::uint64_t mask_, end_;
};

// The shells done so far, a number for each table, and which is to be next.
class Shells {
public:
    Shells(const Tables& tables, const std::uint32_t* values);

    // Every code nearer than this has been seen.
    int covered() const { return covered_; }
    // The largest distance of which all is done in table t; -1: nothing is.
    int done(std::size_t t) const { return state_[t].done; }
    // The least distance of an unseen code in the chunks of all other tables than t and, for another than the primary,
    // than the primary.
    int elsewhere(std::size_t t) const { return covered_ - (state_[t].done + 1) - (t ? state_[0].done + 1 : 0); }
    // The table whose next shell is cheapest when codes up to limit are wanted.
    std::size_t cheapest(std::int32_t limit);
    // The next shell of table t, done(t) + 1, has been visited and had so many entries.
    void finish(std::size_t t, std::size_t entries);
    // How many buckets cheapest() has counted since the last call.
    std::size_t take_counted() { return std::exchange(counted_, 0); }
    // True when some table has been seen to its end.
    bool all_seen() const { return all_seen_; }

    // What is left until all codes up to limit have been seen; `partly`: the share of the next shell of t that is done.
    // Not added up beyond `enough`.
    double rest_ns(std::int32_t limit, std::size_t t, double partly, double enough) const;

private:
    struct State {
        std::uint32_t value;
        int done = -1;
        double entries = -1;  // of the next shell, where they have been counted
        double density;       // entries a bucket: in the last shell that is known
    };

    double density(std::size_t t, double known, int shells_further) const;
    double cost(std::size_t t, int shell, double entries, std::int32_t limit) const;
    void count_next(std::size_t t);

    const Tables& tables_;
    std::vector<State> state_;
    int covered_ = 0;
    std::size_t counted_ = 0;
    bool all_seen_ = false;
};

}  // namespace idcwh::multi
