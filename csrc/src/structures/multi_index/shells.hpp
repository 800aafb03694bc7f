// The shells of a query: their buckets, the order in which they are visited, and their cost.
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
inline constexpr double candidate_ns = 15;  // an entry near enough: the checks of SeenFilter and its row number
inline constexpr double found_ns = 25;      // one not seen before, which the sink takes
inline constexpr double measure_ns = 80;    // a code of more than 64 bits, in the caller's memory

// All values that differ from a substring's value in `distance` bits, in ascending order of the difference.
class Shell {
public:
    Shell(std::uint32_t value, unsigned width, unsigned distance)
        : value_(value), mask_((std::uint64_t{1} << distance) - 1), end_(std::uint64_t{1} << width) {}

    // Writes up to `most` values and returns their number; 0 at the end.
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

// The search radius of each table so far, and the choice of the next shell.
class Shells {
public:
    Shells(const Tables& tables, const std::uint32_t* values);

    // Every code nearer than this has been seen: the sum of done(t) + 1.
    int covered() const { return covered_; }
    // The radius up to which table t has been visited; -1: not at all.
    int done(std::size_t t) const { return state_[t].done; }
    // The least distance of an unseen code in all substrings but that of t and, unless t is the primary, substring 0.
    int elsewhere(std::size_t t) const { return covered_ - (state_[t].done + 1) - (t ? state_[0].done + 1 : 0); }
    // Returns the table with the cheapest next shell of a search up to distance `limit`.
    std::size_t cheapest(std::int32_t limit);
    // Records that the next shell of table t, done(t) + 1, has been visited and had `entries` entries.
    void finish(std::size_t t, std::size_t entries);
    // Returns the number of buckets that cheapest() has counted since the last call.
    std::size_t take_counted() { return std::exchange(counted_, 0); }
    // True when some table has been visited completely.
    bool all_seen() const { return all_seen_; }

    // Returns the cost of the rest until all codes up to limit have been seen, or a partial sum above `enough`.
    // partly: the share of the next shell of t that has been visited.
    double rest_ns(std::int32_t limit, std::size_t t, double partly, double enough) const;

private:
    struct State {
        std::uint32_t value;
        int done = -1;
        double entries = -1;  // size of the next shell; -1: not counted
        double density;       // entries per bucket in the last known shell
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
