// The entries of short buckets, copied one bucket behind the other: a kernel then reads thousands of entries per call,
// and no branch depends on the size of a bucket.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/kernels/kernels.hpp"
#include "structures/multi_index/table.hpp"

namespace idcwh::multi {

class BucketStage {
public:
    // Prefetches all bytes that add() will copy. A bucket in the middle of a cache line may reach into the next one.
    static void prefetch(const Table& table, std::size_t position, std::size_t entries) {
        const std::uint8_t* const from = table.entries.data() + position * table.entry_bytes;
        const std::size_t last = std::clamp<std::size_t>(entries * table.entry_bytes, copy_bytes, 1024) - 1;
        __builtin_prefetch(from);
        for (std::size_t at = 64; at < last; at += 64) __builtin_prefetch(from + at);
        __builtin_prefetch(from + last);
    }

    bool has_room(std::size_t entries) const {
        return size_ + entries <= kernels::max_block_rows && buckets_ < max_buckets;
    }
    // Copies a bucket, which must fit: the entries of the table from `position` on.
    void add(const Table& table, std::size_t position, std::size_t entries) {
        bucket_[buckets_++] = {static_cast<std::uint32_t>(size_), static_cast<std::uint32_t>(position)};
        const std::uint8_t* from = table.entries.data() + position * table.entry_bytes;
        std::uint8_t* to = entries_ + size_ * table.entry_bytes;
        const std::uint8_t* const end = to + entries * table.entry_bytes;
        for (; to < end; to += copy_bytes, from += copy_bytes) std::memcpy(to, from, copy_bytes);
        size_ += entries;
    }
    void clear() { size_ = buckets_ = 0; }

    std::size_t size() const { return size_; }  // in entries
    const std::uint8_t* entries() const { return entries_; }

    // Calls on_hit(position in the table, distance) per hit among the staged entries. The hits ascend by row.
    template <class OnHit>
    void for_each_hit(const kernels::Hit* hits, std::size_t count, const OnHit& on_hit) const {
        const std::size_t buckets =
            buckets_;  // local, because on_hit could change the member for all the compiler knows
        for (std::size_t i = 0, b = 0; i < count; ++i) {
            while (b + 1 < buckets && bucket_[b + 1].first <= hits[i].row) ++b;
            on_hit(bucket_[b].position + (hits[i].row - bucket_[b].first), hits[i].distance);
        }
    }

private:
    static constexpr std::size_t max_buckets = 1024;
    static constexpr std::size_t copy_bytes = 32;  // per copy, whatever the bucket's size
    static_assert(copy_bytes <= load_slack);

    struct Bucket {
        std::uint32_t first, position;  // of its first entry, in the stage and in the table
    };

    std::size_t size_ = 0, buckets_ = 0;
    Bucket bucket_[max_buckets];
    std::uint8_t entries_[kernels::max_block_rows * 8 + copy_bytes];
};

}  // namespace idcwh::multi
