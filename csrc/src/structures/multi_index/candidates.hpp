// The candidates of a shell: collected and filtered in blocks, so that their memory can be prefetched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/dispatch.hpp"
#include "structures/multi_index/budget.hpp"
#include "structures/multi_index/search.hpp"
#include "structures/multi_index/seen_filter.hpp"
#include "structures/multi_index/shells.hpp"
#include "structures/multi_index/table.hpp"

namespace idcwh::multi {

class Candidates {
public:
    Candidates(const Table& primary, std::uint64_t query_tail, Receiver& receiver, Budget& budget,
               const SeenFilter& seen)
        : primary_(primary), query_tail_(query_tail), receiver_(receiver), budget_(budget), seen_(seen) {}

    // position: index of an entry of the primary; distance: the sum over substring 0 and the entry.
    void add(std::size_t position, int distance) {
        if (count_ == kernels::max_block_rows) deliver();
        candidate_[count_++] = {static_cast<std::uint32_t>(position), distance};
    }

    // Passes the candidates that are seen for the first time to the receiver.
    void deliver() {
        const std::size_t candidates = count_;
        count_ = 0;
        if (candidates == 0 || !budget_.pay(candidates, candidate_ns)) return;
        std::size_t count = 0;
        for (std::size_t i = 0; i < candidates; ++i) {
            if (!seen_.first_seen_here(primary_.entry(candidate_[i].row) ^ query_tail_)) continue;
            __builtin_prefetch(&primary_.rows[candidate_[i].row]);
            candidate_[count++] = candidate_[i];
        }
        for (std::size_t i = 0; i < count; ++i) candidate_[i].row = primary_.rows[candidate_[i].row];
        if (!budget_.pay(count, found_ns)) return;
        receiver_.take(candidate_, count);
    }

private:
    const Table& primary_;
    const std::uint64_t query_tail_;
    Receiver& receiver_;
    Budget& budget_;
    const SeenFilter& seen_;
    std::size_t count_ = 0;
    Found candidate_[kernels::max_block_rows];  // until deliver(), `row` is the position in the primary
};

}  // namespace idcwh::multi
