// Keeps the k nearest of what a scan of ascending rows finds for one query, and tells the scan how near a code has to
// be.
//
// Distances are small integers, so a count for each says at once what the k-th distance is: no heap. Candidates that
// have fallen behind it stay in the buffer until it has doubled, so that a hit costs O(1) in any order of arrival, far
// to near included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cpu/kernels/kernels.hpp"
#include "scan/blocks.hpp"

namespace idcwh {

struct Entry {
    std::int64_t id;
    std::int32_t distance;
};

enum class Ties { cut, keep };  // what becomes of codes as near as the k-th beyond k

class Selector {
public:
    // ids: of the rows, or null when the row number is the id. Then ids arrive in ascending order, and a later code at
    // the k-th distance can be turned away unseen.
    Selector(std::size_t k, unsigned bits, const std::int64_t* ids, Ties ties);

    // The largest distance worth reporting; -1 when nothing that is still to come can be wanted.
    std::int32_t limit() const { return full() && !ids_ && ties_ == Ties::cut ? kth_ - 1 : kth_; }
    bool full() const { return within_ >= k_; }
    // With full(): the distance that k codes are known not to exceed.
    std::int32_t kth() const { return kth_; }
    const std::vector<Entry>& entries() const { return entries_; }

    void absorb(const kernels::Hit* hits, std::size_t count, const Block& block);

private:
    void drop_far();

    static constexpr std::int64_t any_id = std::numeric_limits<std::int64_t>::max();

    std::size_t k_;
    std::int32_t kth_;        // bits until k are found
    std::size_t within_ = 0;  // entries with distance <= kth_
    const std::int64_t* ids_;
    Ties ties_;
    std::int64_t last_id_ = any_id;    // at the k-th distance no larger id is wanted
    std::vector<std::size_t> counts_;  // by distance, of the entries within kth_
    std::vector<Entry> entries_;
    std::size_t drop_at_;
};

}  // namespace idcwh
