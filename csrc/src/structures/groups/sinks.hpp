// What a search of the distinct codes finds for one query: sinks for scan.hpp and for DirectTable.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/atomic_bound.hpp"
#include "cpu/kernels/kernels.hpp"
#include "scan/blocks.hpp"
#include "structures/groups/selected.hpp"

namespace idcwh {

struct GroupHit {
    Group group;
    std::int32_t distance;
};

// The groups that hold the k nearest rows, and all that are as near as the k-th: which of those have the lowest ids is
// seen when they are expanded.
class GroupSelector {
public:
    // kth: of the query, shared by the sinks that search parts of the codes; it begins at the number of bits.
    GroupSelector(const Selected& selected, std::size_t k, std::atomic<std::int32_t>& kth)
        : selected_(&selected),
          shared_kth_(&kth),
          k_(k),
          kth_(kth.load(std::memory_order_relaxed)),
          counts_(static_cast<std::size_t>(std::max(kth_, 0)) + 1) {}

    std::int32_t limit() const { return std::min(kth_, shared_kth_->load(std::memory_order_relaxed)); }

    void take(std::size_t row, std::int32_t distance) {
        const auto group = static_cast<Group>(row);
        const std::size_t rows = selected_->rows(group);
        if (rows == 0 || distance > kth_) return;
        hits_.push_back({group, distance});
        counts_[static_cast<std::size_t>(distance)] += rows;
        within_ += rows;
        if (within_ < k_) return;
        // The k-th distance is the smallest that at least k rows do not exceed.
        while (kth_ > 0 && within_ - counts_[static_cast<std::size_t>(kth_)] >= k_)
            within_ -= counts_[static_cast<std::size_t>(kth_--)];
        // Codes that are equal to the query are one group: when it suffices, nothing is wanted any more.
        if (kth_ == 0) kth_ = -1;
        lower_to(*shared_kth_, kth_);
        if (hits_.size() >= drop_at_) drop_far();
    }
    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
        for (std::size_t i = 0; i < count; ++i)
            take(static_cast<std::size_t>(block.number(hits[i].row)), hits[i].distance);
    }

    const std::vector<GroupHit>& hits() const { return hits_; }

private:
    void drop_far() {
        const std::int32_t last = std::max(kth_, 0);
        hits_.erase(
            std::remove_if(hits_.begin(), hits_.end(), [&](const GroupHit& hit) { return hit.distance > last; }),
            hits_.end());
        drop_at_ = std::max(drop_at_, 2 * hits_.size());
    }

    const Selected* selected_;
    std::atomic<std::int32_t>* shared_kth_;
    std::size_t k_;
    std::int32_t kth_;                   // -1: nothing is wanted any more
    std::size_t within_ = 0;             // rows at most kth_ away
    std::vector<std::uint64_t> counts_;  // rows by distance, up to kth_
    std::vector<GroupHit> hits_;
    std::size_t drop_at_ = 1024;
};

// Every group within a radius.
class GroupCollector {
public:
    GroupCollector(const Selected& selected, std::int32_t radius) : selected_(&selected), radius_(radius) {}
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
    const Selected* selected_;
    std::int32_t radius_;
    std::vector<GroupHit> hits_;
};

// How many rows the groups within a radius have.
class GroupCounter {
public:
    GroupCounter(const Selected& selected, std::int32_t radius) : selected_(&selected), radius_(radius) {}
    std::int32_t limit() const { return radius_; }
    void take(std::size_t row, std::int32_t) { rows_ += selected_->rows(static_cast<Group>(row)); }
    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
        for (std::size_t i = 0; i < count; ++i) take(static_cast<std::size_t>(block.number(hits[i].row)), 0);
    }
    std::int64_t rows() const { return rows_; }

private:
    const Selected* selected_;
    std::int32_t radius_;
    std::int64_t rows_ = 0;
};

}  // namespace idcwh
