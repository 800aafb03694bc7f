// Keeps the k nearest of what a scan of ascending rows finds for one query, and tells the scan how near a code has to
// be.
//
// Distances are small integers, so a count for each says at once what the k-th distance is: no heap. Candidates that
// have fallen behind it stay in the buffer until it has doubled, so that a hit costs O(1) in any order of arrival, far
// to near included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "blocks.hpp"
#include "kernels/kernels.hpp"

namespace idcwh {

struct Entry {
    std::int64_t id;
    std::int32_t distance;
};

class Selector {
public:
    // ids: of the rows, or null when the row number is the id. Then ids arrive in ascending order, and a later code at
    // the k-th distance can be turned away unseen.
    Selector(std::size_t k, unsigned bits, const std::int64_t* ids);

    // The largest distance worth reporting; -1 when nothing that is still to come can be among the k nearest.
    std::int32_t limit() const { return full() && !ids_ ? kth_ - 1 : kth_; }
    bool full() const { return within_ >= k_; }
    // With full(): the distance that k codes are known not to exceed.
    std::int32_t kth() const { return kth_; }

    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block);

    // Merges the selectors that have seen successive ranges of rows, and writes their k nearest (or all, when fewer),
    // in order.
    static void finish(Selector* const* parts, std::size_t count, std::int32_t* distances, std::int64_t* ids);

private:
    void drop_far();

    std::size_t k_;
    std::int32_t kth_;        // bits until k are found
    std::size_t within_ = 0;  // entries with distance <= kth_
    const std::int64_t* ids_;
    std::vector<std::uint32_t> counts_;  // by distance, of the entries within kth_
    std::vector<Entry> entries_;
    std::size_t drop_at_;
};

// Writes entries (ordered by id within a distance when in_id_order) by (distance, id): the first `take` of them, by
// counting sort.
void sort_entries(const std::vector<const std::vector<Entry>*>& parts, unsigned bits, bool in_id_order,
                  std::size_t take, std::int32_t* distances, std::int64_t* ids);

}  // namespace idcwh
