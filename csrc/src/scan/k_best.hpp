// KBest: the k nearest entries of one query so far, and the largest distance that can still enter.
//
// Distances are small integers, so counts per distance give the k-th distance without a heap. Entries beyond it stay in
// the buffer until the buffer has doubled, so an entry takes O(1) amortised time in any order of arrival.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace idcwh {

// The k-th smallest of the counted distances, or `most` while there are fewer than k.
class KthDistance {
public:
    KthDistance(std::size_t k, std::int32_t most)
        : k_(k), kth_(most), counts_(static_cast<std::size_t>(std::max(most, 0)) + 1) {}

    std::int32_t value() const { return kth_; }
    bool full() const { return within_ >= k_; }
    // Counts `rows` codes at a distance of at most value(). Returns true if value() has decreased.
    bool add(std::int32_t distance, std::size_t rows = 1) {
        counts_[static_cast<std::size_t>(distance)] += rows;
        within_ += rows;
        if (!full()) return false;
        const std::int32_t before = kth_;
        while (kth_ > 0 && within_ - counts_[static_cast<std::size_t>(kth_)] >= k_)
            within_ -= counts_[static_cast<std::size_t>(kth_--)];
        return kth_ != before;
    }
    // Removes `rows` codes at value(); at least k remain.
    void drop(std::size_t rows) {
        counts_[static_cast<std::size_t>(kth_)] -= rows;
        within_ -= rows;
    }

private:
    std::size_t k_, within_ = 0;  // within_: number of codes at a distance of at most value()
    std::int32_t kth_;
    std::vector<std::size_t> counts_;  // per distance, up to value()
};

struct Entry {
    std::int64_t id;
    std::int32_t distance;
    bool operator<(const Entry& other) const {
        return distance != other.distance ? distance < other.distance : id < other.id;
    }
};

enum class Arrival { ascending, any };  // order of ids; if ascending, a later code at the k-th distance cannot enter
enum class Ties { cut, keep };          // treatment of codes beyond k at the k-th distance

class KBest {
public:
    KBest(std::size_t k, unsigned bits, Arrival arrival = Arrival::any, Ties ties = Ties::cut)
        : k_(k), kth_(k, static_cast<std::int32_t>(bits)), arrival_(arrival), ties_(ties), drop_at_(k + slack) {}

    // Returns the largest distance that can still enter; -1: none.
    std::int32_t limit() const {
        return arrival_ == Arrival::ascending && ties_ == Ties::cut && full() ? kth_.value() - 1 : kth_.value();
    }
    // Returns the same if all later ids are at least `id`.
    std::int32_t limit_from(std::int64_t id) const { return id > last_id_ ? kth_.value() - 1 : limit(); }
    bool full() const { return kth_.full(); }
    // If full(), returns a distance that at least k codes do not exceed.
    std::int32_t kth() const { return kth_.value(); }

    void add(std::int64_t id, std::int32_t distance) {
        if (distance > limit() || (distance == kth_.value() && id > last_id_)) return;
        const Entry entry{id, distance};
        in_order_ = in_order_ && (entries_.empty() || entries_.back() < entry);
        entries_.push_back(entry);
        if (kth_.add(distance)) last_id_ = any_id;
        // In order, as with many equal codes, the k-th entry is known without a drop.
        if (in_order_ && ties_ == Ties::cut && entries_.size() == k_) last_id_ = id;
        if (entries_.size() >= drop_at_) drop();
    }

    const std::vector<Entry>& entries() const { return entries_; }
    // Writes at most k entries by (distance, id). Returns their number.
    std::size_t finish(std::int32_t* distances, std::int64_t* ids) {
        if (entries_.size() > k_) cut();
        if (!in_order_) std::sort(entries_.begin(), entries_.end());
        for (std::size_t i = 0; i < entries_.size(); ++i) {
            distances[i] = entries_[i].distance;
            ids[i] = entries_[i].id;
        }
        return entries_.size();
    }

private:
    static constexpr std::size_t slack = 256;  // entries beyond k before the first drop, so that small k drop rarely
    static constexpr std::int64_t any_id = std::numeric_limits<std::int64_t>::max();

    // Removes all but the k nearest entries. The k-th is then the last.
    void cut() {
        std::nth_element(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(k_) - 1, entries_.end());
        entries_.resize(k_);
        in_order_ = false;
    }

    // Removes entries beyond the k-th distance.
    void drop() {
        const auto far = [&](const Entry& entry) { return entry.distance > kth_.value(); };
        entries_.erase(std::remove_if(entries_.begin(), entries_.end(), far), entries_.end());
        if (arrival_ == Arrival::any && ties_ == Ties::cut && entries_.size() > k_ + slack / 2) {
            // Many codes tie at the k-th distance, and only those with the lowest ids can be in the result.
            kth_.drop(entries_.size() - k_);
            cut();
            last_id_ = entries_.back().id;
        }
        drop_at_ = std::max(k_ + slack, 2 * entries_.size());
    }

    std::size_t k_;
    KthDistance kth_;
    Arrival arrival_;
    Ties ties_;
    std::int64_t last_id_ = any_id;  // larger ids at the k-th distance cannot enter
    std::vector<Entry> entries_;
    bool in_order_ = true;  // true if entries_ ascend
    std::size_t drop_at_;
};

}  // namespace idcwh
