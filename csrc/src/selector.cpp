// See selector.hpp.
#include "selector.hpp"

#include <algorithm>

namespace idcwh {
namespace {

constexpr std::size_t slack = 256;  // entries beyond k before the buffer is cleaned the first time

}  // namespace

Selector::Selector(std::size_t k, unsigned bits, const std::int64_t* ids)
    : k_(k), kth_(static_cast<std::int32_t>(bits)), ids_(ids), counts_(bits + 1), drop_at_(k + slack) {}

void Selector::absorb(const kernels::Hit* hits, std::size_t count, const Block& block) {
    for (std::size_t i = 0; i < count; ++i) {
        const std::int32_t distance = hits[i].distance;
        if (distance > limit()) continue;  // it has shrunk since the kernel was called
        const std::size_t row = block.number(hits[i].row);
        entries_.push_back({ids_ ? ids_[row] : static_cast<std::int64_t>(row), distance});
        ++counts_[static_cast<std::size_t>(distance)];
        ++within_;
        // The k-th distance is the smallest that at least k entries do not exceed.
        while (kth_ > 0 && within_ - counts_[static_cast<std::size_t>(kth_)] >= k_)
            within_ -= counts_[static_cast<std::size_t>(kth_--)];
        if (entries_.size() >= drop_at_) drop_far();
    }
}

void Selector::drop_far() {
    const auto far = [&](const Entry& entry) { return entry.distance > kth_; };
    entries_.erase(std::remove_if(entries_.begin(), entries_.end(), far), entries_.end());
    if (ids_ && entries_.size() > 2 * k_ + slack) {
        // Too many codes tie at the k-th distance: of those only the lowest ids can be wanted.
        const auto order = [](const Entry& a, const Entry& b) {
            return a.distance != b.distance ? a.distance < b.distance : a.id < b.id;
        };
        std::nth_element(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(k_), entries_.end(), order);
        const std::size_t dropped = entries_.size() - k_;
        entries_.resize(k_);
        counts_[static_cast<std::size_t>(kth_)] -= static_cast<std::uint32_t>(dropped);
        within_ -= dropped;
    }
    drop_at_ = std::max(k_ + slack, 2 * entries_.size());
}

void Selector::finish(Selector* const* parts, std::size_t count, std::int32_t* distances, std::int64_t* ids) {
    std::vector<const std::vector<Entry>*> buffers(count);
    for (std::size_t i = 0; i < count; ++i) buffers[i] = &parts[i]->entries_;
    sort_entries(buffers, static_cast<unsigned>(parts[0]->counts_.size() - 1), !parts[0]->ids_, parts[0]->k_, distances,
                 ids);
}

void sort_entries(const std::vector<const std::vector<Entry>*>& parts, unsigned bits, bool in_id_order,
                  std::size_t take, std::int32_t* distances, std::int64_t* ids) {
    std::vector<std::size_t> begins(static_cast<std::size_t>(bits) + 2);
    std::size_t total = 0;
    for (const auto* part : parts) {
        for (const Entry& entry : *part) ++begins[static_cast<std::size_t>(entry.distance) + 1];
        total += part->size();
    }
    take = std::min(take, total);
    for (std::size_t d = 1; d < begins.size(); ++d) begins[d] += begins[d - 1];

    // Where ids are in no order, each distance's are sorted, and the last distance that fits is cut only afterwards.
    std::size_t last = 0;  // one past the last distance of which some are taken
    while (last <= bits && begins[last] < take) ++last;
    std::vector<std::int64_t> sorted;
    std::int64_t* out = ids;
    if (!in_id_order && begins[last] > take) {
        sorted.resize(begins[last]);
        out = sorted.data();
    }
    std::vector<std::size_t> next(begins.begin(), begins.end());
    const std::size_t room = out == ids ? take : sorted.size();
    for (const auto* part : parts)
        for (const Entry& entry : *part) {
            const std::size_t at = next[static_cast<std::size_t>(entry.distance)]++;
            if (at < room) out[at] = entry.id;
        }
    for (std::size_t d = 0; d < last; ++d) {
        if (!in_id_order) std::sort(out + begins[d], out + begins[d + 1]);
        for (std::size_t at = begins[d]; at < std::min(begins[d + 1], take); ++at)
            distances[at] = static_cast<std::int32_t>(d);
    }
    if (out != ids) std::copy(out, out + take, ids);
}

}  // namespace idcwh
