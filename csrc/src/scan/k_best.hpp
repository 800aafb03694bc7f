// Keeps the k nearest of what is found for one query, and says how near a code has to be to be wanted.
//
// Distances are small integers, so a count for each says at once what the k-th distance is: no heap. Entries that have
// fallen behind it stay in the buffer until it has doubled, so that an entry costs O(1) in any order of arrival.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace idcwh {

// The k-th smallest of the distances that were counted, or `most` while there are fewer than k.
class KthDistance {
public:
    KthDistance(std::size_t k, std::int32_t most)
        : k_(k), kth_(most), counts_(static_cast<std::size_t>(std::max(most, 0)) + 1) {}

    std::int32_t value() const { return kth_; }
    bool full() const { return within_ >= k_; }
    // Counts `rows` codes at a distance of at most value(). Returns whether value() shrank.
    bool add(std::int32_t distance, std::size_t rows = 1) {
        counts_[static_cast<std::size_t>(distance)] += rows;
        within_ += rows;
        const std::int32_t before = kth_;
        while (kth_ > 0 && within_ - counts_[static_cast<std::size_t>(kth_)] >= k_)
            within_ -= counts_[static_cast<std::size_t>(kth_--)];
        return kth_ != before;
    }
    // Forgets so many of the codes at value(); at least k stay.
    void drop(std::size_t rows) {
        counts_[static_cast<std::size_t>(kth_)] -= rows;
        within_ -= rows;
    }

private:
    std::size_t k_, within_ = 0;  // codes at most value() away
    std::int32_t kth_;
    std::vector<std::size_t> counts_;  // by distance, up to value()
};

struct Entry {
    std::int64_t id;
    std::int32_t distance;
    bool operator<(const Entry& other) const {
        return distance != other.distance ? distance < other.distance : id < other.id;
    }
};

enum class Arrival { ascending, any };  // of ids. Ascending: a later code at the k-th distance is never wanted.
enum class Ties { cut, keep };          // codes beyond k that are as near as the k-th

class KBest {
public:
    KBest(std::size_t k, unsigned bits, Arrival arrival = Arrival::any, Ties ties = Ties::cut)
        : k_(k), kth_(k, static_cast<std::int32_t>(bits)), arrival_(arrival), ties_(ties), drop_at_(k + slack) {}

    // The largest distance that is still wanted; -1: none.
    std::int32_t limit() const {
        return arrival_ == Arrival::ascending && ties_ == Ties::cut && full() ? kth_.value() - 1 : kth_.value();
    }
    // The same where this id and larger ones are still to come.
    std::int32_t limit_from(std::int64_t id) const { return id > last_id_ ? kth_.value() - 1 : limit(); }
    bool full() const { return kth_.full(); }
    // With full(): a distance that k codes do not exceed.
    std::int32_t kth() const { return kth_.value(); }

    void add(std::int64_t id, std::int32_t distance) {
        if (distance > limit() || (distance == kth_.value() && id > last_id_)) return;
        const Entry entry{id, distance};
        in_order_ = in_order_ && (entries_.empty() || entries_.back() < entry);
        entries_.push_back(entry);
        if (kth_.add(distance)) last_id_ = any_id;
        // Equal codes, in the order of ids: the k-th is known without a drop.
        if (in_order_ && ties_ == Ties::cut && entries_.size() == k_) last_id_ = id;
        if (entries_.size() >= drop_at_) drop();
    }

    const std::vector<Entry>& entries() const { return entries_; }
    // Writes the entries, at most k, by (distance, id). Returns how many.
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
    static constexpr std::size_t slack = 256;  // entries beyond k before the buffer is cleaned the first time
    static constexpr std::int64_t any_id = std::numeric_limits<std::int64_t>::max();

    // Leaves the k nearest, the k-th at the end.
    void cut() {
        std::nth_element(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(k_) - 1, entries_.end());
        entries_.resize(k_);
        in_order_ = false;
    }

    void drop() {
        const auto far = [&](const Entry& entry) { return entry.distance > kth_.value(); };
        entries_.erase(std::remove_if(entries_.begin(), entries_.end(), far), entries_.end());
        if (arrival_ == Arrival::any && ties_ == Ties::cut && entries_.size() > k_ + slack / 2) {
            // Many codes tie at the k-th distance: of those only the lowest ids can be wanted.
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
    std::int64_t last_id_ = any_id;  // no larger id is wanted at the k-th distance
    std::vector<Entry> entries_;
    bool in_order_ = true;  // entries_ ascend
    std::size_t drop_at_;
};

}  // namespace idcwh
