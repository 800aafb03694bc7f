// See selector.hpp.
#include "scan/k_best.hpp"

#include <algorithm>

namespace idcwh {
namespace {

constexpr std::size_t slack = 256;  // entries beyond k before the buffer is cleaned the first time

}  // namespace

Selector::Selector(std::size_t k, unsigned bits, const std::int64_t* ids, Ties ties)
    : k_(k), kth_(static_cast<std::int32_t>(bits)), ids_(ids), ties_(ties), counts_(bits + 1), drop_at_(k + slack) {}

void Selector::absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
    for (std::size_t i = 0; i < count; ++i) {
        const std::int32_t distance = hits[i].distance;
        if (distance > limit()) continue;  // it has shrunk since the kernel was called
        const std::int64_t row = block.number(hits[i].row), id = ids_ ? ids_[row] : row;
        if (distance == kth_ && id > last_id_) continue;
        entries_.push_back({id, distance});
        ++counts_[static_cast<std::size_t>(distance)];
        ++within_;
        // The k-th distance is the smallest that at least k entries do not exceed.
        while (kth_ > 0 && within_ - counts_[static_cast<std::size_t>(kth_)] >= k_) {
            within_ -= counts_[static_cast<std::size_t>(kth_--)];
            last_id_ = any_id;
        }
        if (entries_.size() >= drop_at_) drop_far();
    }
}

void Selector::drop_far() {
    const auto far = [&](const Entry& entry) { return entry.distance > kth_; };
    entries_.erase(std::remove_if(entries_.begin(), entries_.end(), far), entries_.end());
    if (ids_ && ties_ == Ties::cut && entries_.size() > k_ + slack / 2) {
        // Many codes tie at the k-th distance: of those only the lowest ids can be wanted.
        const auto order = [](const Entry& a, const Entry& b) {
            return a.distance != b.distance ? a.distance < b.distance : a.id < b.id;
        };
        const auto last = entries_.begin() + static_cast<std::ptrdiff_t>(k_) - 1;
        std::nth_element(entries_.begin(), last, entries_.end(), order);
        last_id_ = last->id;
        const std::size_t dropped = entries_.size() - k_;
        entries_.resize(k_);
        counts_[static_cast<std::size_t>(kth_)] -= dropped;
        within_ -= dropped;
    }
    drop_at_ = std::max(k_ + slack, 2 * entries_.size());
}

}  // namespace idcwh
