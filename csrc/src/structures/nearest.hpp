// Keeps the k nearest of what a structure finds for one query, in whatever order it comes, by (distance, id).
//
// Counts for each distance say at once what the k-th is. Of the codes that tie at it only the lowest ids are wanted:
// which these are is found out when the buffer has filled, so that a candidate costs O(1).
//
// Selector (scan/k_best.hpp) and GroupSelector (groups/sinks.hpp) count distances too, but share no code with it: a
// Selector gets ascending rows in blocks and may keep all ties, a GroupSelector counts several rows per hit and keeps
// all ties, and only Nearest gets rows in any order and stops at the lowest ids of equal codes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace idcwh {

class Nearest {
public:
    Nearest(std::size_t k, unsigned bits)
        : k_(k),
          kth_(static_cast<std::int32_t>(bits)),
          counts_(static_cast<std::size_t>(bits) + 1),
          drop_at_(k + slack) {}

    // The largest distance still wanted.
    std::int32_t limit() const { return kth_; }
    // The same for ids from this one on.
    std::int32_t limit_from(std::int64_t id) const { return id > last_id_ ? kth_ - 1 : kth_; }
    bool full() const { return within_ >= k_; }

    void add(std::int64_t id, std::int32_t distance) {
        if (distance > kth_ || (distance == kth_ && id > last_id_)) return;
        const Entry entry{distance, id};
        in_order_ = in_order_ && (entries_.empty() || entries_.back() < entry);
        entries_.push_back(entry);
        ++counts_[static_cast<std::size_t>(distance)];
        ++within_;
        while (kth_ > 0 && within_ - counts_[static_cast<std::size_t>(kth_)] >= k_) {
            within_ -= counts_[static_cast<std::size_t>(kth_--)];
            last_id_ = std::numeric_limits<std::int64_t>::max();
        }
        if (in_order_ && entries_.size() == k_)
            last_id_ = id;  // equal codes, in row order: no need to look any further
        if (entries_.size() >= drop_at_) drop();
    }

    // Writes what it has, at most k, in order; returns how many.
    std::size_t finish(std::int32_t* distances, std::int64_t* ids) {
        if (entries_.size() > k_) drop();
        if (!in_order_) std::sort(entries_.begin(), entries_.end());
        for (std::size_t i = 0; i < entries_.size(); ++i) {
            distances[i] = entries_[i].distance;
            ids[i] = entries_[i].id;
        }
        return entries_.size();
    }

private:
    static constexpr std::size_t slack = 64;
    struct Entry {
        std::int32_t distance;
        std::int64_t id;
        bool operator<(const Entry& other) const {
            return distance != other.distance ? distance < other.distance : id < other.id;
        }
    };

    // All but the k nearest.
    void drop() {
        std::nth_element(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(k_ - 1), entries_.end());
        entries_.resize(k_);
        in_order_ = false;
        last_id_ = entries_.back().id;  // nth_element has put the k-th last
        within_ = k_;
        const auto kth = static_cast<std::size_t>(kth_);
        std::size_t nearer = 0;
        for (std::size_t d = 0; d < kth; ++d) nearer += counts_[d];
        counts_[kth] = static_cast<std::uint32_t>(k_ - nearer);
        drop_at_ = 2 * k_ + slack;
    }

    std::size_t k_;
    std::int32_t kth_;                                                 // bits until k are there
    std::int64_t last_id_ = std::numeric_limits<std::int64_t>::max();  // of the k-th, as far as known
    std::size_t within_ = 0;                                           // entries with distance <= kth_
    std::vector<std::uint32_t> counts_;                                // by distance, of these
    std::vector<Entry> entries_;
    bool in_order_ = true;  // as they have come
    std::size_t drop_at_;
};

}  // namespace idcwh
