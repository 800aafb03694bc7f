// Sinks for find.hpp, which collect the results of one query over the distinct codes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/atomic_bound.hpp"
#include "cpu/kernels/kernels.hpp"
#include "scan/blocks.hpp"
#include "scan/k_best.hpp"
#include "structures/groups/filter.hpp"

namespace idcwh {

struct GroupHit {
    Group group;
    std::int32_t distance;
};

// The groups with the k nearest rows, and all groups as near as the k-th row. The expansion decides which of them have
// the lowest ids.
class GroupKBest {
public:
    // kth: the query's k-th distance, shared by the sinks of all parts. It starts at the number of bits.
    GroupKBest(const GroupFilter& selected, std::size_t k, std::atomic<std::int32_t>& kth)
        : selected_(&selected), shared_kth_(&kth), kth_(k, kth.load(std::memory_order_relaxed)) {}

    std::int32_t limit() const { return std::min(limit_, shared_kth_->load(std::memory_order_relaxed)); }

    void take(std::size_t row, std::int32_t distance) {
        const auto group = static_cast<Group>(row);
        const std::size_t rows = selected_->rows(group);
        if (rows == 0 || distance > limit_) return;
        hits_.push_back({group, distance});
        kth_.add(distance, rows);
        if (!kth_.full()) return;
        // Codes equal to the query are one group. If it suffices, no other group is needed.
        limit_ = kth_.value() == 0 ? -1 : kth_.value();
        lower_to(*shared_kth_, limit_);
        if (hits_.size() >= drop_at_) drop_far();
    }
    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
        for (std::size_t i = 0; i < count; ++i)
            take(static_cast<std::size_t>(block.number(hits[i].row)), hits[i].distance);
    }

    const std::vector<GroupHit>& hits() const { return hits_; }

private:
    void drop_far() {
        const std::int32_t last = kth_.value();
        hits_.erase(
            std::remove_if(hits_.begin(), hits_.end(), [&](const GroupHit& hit) { return hit.distance > last; }),
            hits_.end());
        drop_at_ = std::max(drop_at_, 2 * hits_.size());
    }

    const GroupFilter* selected_;
    std::atomic<std::int32_t>* shared_kth_;
    KthDistance kth_;
    std::int32_t limit_ = kth_.value();  // -1: no group is wanted
    std::vector<GroupHit> hits_;
    std::size_t drop_at_ = 1024;
};

// All groups within a radius.
class GroupCollector {
public:
    GroupCollector(const GroupFilter& selected, std::int32_t radius) : selected_(&selected), radius_(radius) {}
    std::int32_t limit() const { return radius_; }
    void take(std::size_t row, std::int32_t distance) {
        const auto group = static_cast<Group>(row);
        if (selected_->rows(group)) hits_.push_back({group, distance});
    }
    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
        for (std::size_t i = 0; i < count; ++i)
            take(static_cast<std::size_t>(block.number(hits[i].row)), hits[i].distance);
    }
    const std::vector<GroupHit>& hits() const { return hits_; }

private:
    const GroupFilter* selected_;
    std::int32_t radius_;
    std::vector<GroupHit> hits_;
};

// The number of rows in the groups within a radius.
class GroupCounter {
public:
    GroupCounter(const GroupFilter& selected, std::int32_t radius) : selected_(&selected), radius_(radius) {}
    std::int32_t limit() const { return radius_; }
    void take(std::size_t row, std::int32_t) { rows_ += selected_->rows(static_cast<Group>(row)); }
    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
        for (std::size_t i = 0; i < count; ++i) take(static_cast<std::size_t>(block.number(hits[i].row)), 0);
    }
    std::int64_t rows() const { return rows_; }

private:
    const GroupFilter* selected_;
    std::int32_t radius_;
    std::int64_t rows_ = 0;
};

}  // namespace idcwh
