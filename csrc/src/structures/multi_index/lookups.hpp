// The look-ups in the primary: its buckets that the entries of another table have led to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "structures/multi_index/budget.hpp"
#include "structures/multi_index/shells.hpp"
#include "structures/multi_index/table.hpp"

namespace idcwh::multi {

class Lookups {
public:
    void add(std::uint32_t bucket, Budget& budget) {
        if (buckets_.empty() || buckets_.back() != bucket) buckets_.push_back(bucket);
        if (buckets_.size() >= drop_at_) drop_repeated(budget);
    }

    void drop_repeated(Budget& budget) {
        if (!budget.pay(buckets_.size(), candidate_ns)) return buckets_.clear();
        std::sort(buckets_.begin(), buckets_.end());
        buckets_.erase(std::unique(buckets_.begin(), buckets_.end()), buckets_.end());
        drop_at_ = std::max(first_drop, 2 * buckets_.size());
    }

    // Calls on_bucket(bucket) for each, until it returns false, and forgets them. A bucket's begin and its entries are
    // prefetched on the way.
    template <class OnBucket>
    void visit(const Table& primary, OnBucket on_bucket) {
        constexpr std::size_t far = 24, near = 12;
        const std::size_t count = buckets_.size();
        for (std::size_t i = 0; i < count + far; ++i) {
            if (i < count) __builtin_prefetch(&primary.begins[buckets_[i]]);
            if (i >= near && i < count + near) {
                const std::size_t at = primary.begins[buckets_[i - near]] * primary.entry_bytes;
                __builtin_prefetch(primary.entries.data() + at);
                __builtin_prefetch(primary.entries.data() + at + 63);
            }
            if (i >= far && !on_bucket(buckets_[i - far])) break;
        }
        buckets_.clear();
    }

private:
    static constexpr std::size_t first_drop = 1 << 16;  // look-ups before repeated ones are dropped the first time

    std::vector<std::uint32_t> buckets_;
    std::size_t drop_at_ = first_drop;
};

}  // namespace idcwh::multi
