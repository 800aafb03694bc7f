// The bucket stage. Short buckets of a shell are copied one behind the other: the kernels then read thousands of
// entries per call, and no branch depends on the length of a bucket. Long buckets are read where they are stored.
//
// Callbacks are passed by value. Behind a reference, the variables that they capture would be loaded again per bucket,
// because the copies could have changed them (+4 %: csrc/bench/multi_index.cpp, uniform, radius 8, a million codes).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cpu/dispatch.hpp"
#include "structures/multi_index/shells.hpp"
#include "structures/multi_index/table.hpp"

namespace idcwh::multi {

struct Bucket {
    std::uint32_t begin, end;  // positions of its entries in the table
    std::size_t size() const { return end - begin; }
};

class BucketStage {
public:
    // True for a bucket that is copied, false for one that is read where it is stored.
    static bool copies(const Table& table, const Bucket& bucket) {
        return bucket.size() < long_bucket && table.entry_bytes != 0;
    }
    bool has_room(const Bucket& bucket) const {
        return staged_ + bucket.size() <= kernels::max_block_rows && segments_ != most_segments;
    }
    std::size_t size() const { return staged_; }  // entries
    void clear() { staged_ = segments_ = 0; }

    void copy(const Table& table, const Bucket& bucket) {
        segment_[segments_++] = {static_cast<std::uint32_t>(staged_), bucket.begin};
        const std::uint8_t* from = table.entries.data() + bucket.begin * table.entry_bytes;
        std::uint8_t* to = entries_ + staged_ * table.entry_bytes;
        const std::uint8_t* const end = to + bucket.size() * table.entry_bytes;
        for (; to < end; to += copy_bytes, from += copy_bytes) std::memcpy(to, from, copy_bytes);
        staged_ += bucket.size();
    }

    // Calls on_hit(position in the table, distance) for each copied entry within `limit` of query_entry.
    template <class OnHit>
    void scan_copied(const Table& table, const std::uint64_t& query_entry, std::int32_t limit, OnHit on_hit) {
        const std::size_t segments = segments_;
        const std::size_t count = scan(entries_, staged_, table.entry_bytes, query_entry, limit);
        for (std::size_t i = 0, s = 0; i < count; ++i) {
            while (s + 1 < segments && segment_[s + 1].first <= hits_[i].row) ++s;
            on_hit(segment_[s].position + (hits_[i].row - segment_[s].first), hits_[i].distance);
        }
    }

    // The same for `count` entries of the table from `position` on, at most max_block_rows.
    template <class OnHit>
    void scan_in_place(const Table& table, std::size_t position, std::size_t count, const std::uint64_t& query_entry,
                       std::int32_t limit, OnHit on_hit) {
        const std::uint8_t* const from = table.entries.data() + position * table.entry_bytes;
        const std::size_t hits = scan(from, count, table.entry_bytes, query_entry, limit);
        for (std::size_t i = 0; i < hits; ++i) on_hit(position + hits_[i].row, hits_[i].distance);
    }

    // Calls on_bucket(bucket) for each bucket of a shell that is not empty, and on_step(buckets) for each step of the
    // pipeline. Returns false as soon as a call does. A bucket's begin is prefetched two steps ahead, its entries one.
    template <class OnBucket, class OnStep>
    static bool visit(const Table& table, Shell shell, OnBucket on_bucket, OnStep on_step) {
        std::uint32_t values[step];
        Bucket buckets[step];
        std::size_t coming = shell.next(values, step), ready = 0;
        for (std::size_t i = 0; i < coming; ++i) __builtin_prefetch(&table.begins[values[i]]);
        while (coming || ready) {
            for (std::size_t i = 0; i < ready; ++i)
                if (!on_bucket(buckets[i])) return false;
            ready = 0;
            for (std::size_t i = 0; i < coming; ++i) {
                const std::uint32_t begin = table.begins[values[i]], end = table.begins[values[i] + 1];
                buckets[ready] = {begin, end};
                ready += begin < end;
                // All bytes that will be copied: a bucket may cross into the next cache lines.
                const std::uint8_t* const from = table.entries.data() + begin * table.entry_bytes;
                const std::size_t last =
                    std::clamp<std::size_t>((end - begin) * table.entry_bytes, copy_bytes, 1024) - 1;
                __builtin_prefetch(from);
                for (std::size_t at = 64; at < last; at += 64) __builtin_prefetch(from + at);
                __builtin_prefetch(from + last);
            }
            if (!on_step(coming)) return false;
            coming = shell.next(values, step);
            for (std::size_t i = 0; i < coming; ++i) __builtin_prefetch(&table.begins[values[i]]);
        }
        return true;
    }

private:
    static constexpr std::size_t step = 64;             // buckets per step of the pipeline
    static constexpr std::size_t most_segments = 1024;  // buckets copied before the kernels run
    static constexpr std::size_t long_bucket = 1024;    // entries from which a bucket is not copied
    static constexpr std::size_t copy_bytes = 32;       // per copy; at most load_slack

    struct Segment {
        std::uint32_t first, position;  // begin of a bucket in the stage, and in the table
    };

    std::size_t scan(const std::uint8_t* entries, std::size_t count, std::size_t bytes,
                     const std::uint64_t& query_entry, std::int32_t limit) {
        return kernels_.scan(entries, count, bytes, reinterpret_cast<const std::uint8_t*>(&query_entry),
                             static_cast<std::uint32_t>(limit), hits_);
    }

    const kernels::Kernels& kernels_ = active_kernels();
    std::size_t staged_ = 0, segments_ = 0;
    Segment segment_[most_segments];
    kernels::Hit hits_[kernels::max_block_rows];
    std::uint8_t entries_[kernels::max_block_rows * 8 + copy_bytes];
};

}  // namespace idcwh::multi
