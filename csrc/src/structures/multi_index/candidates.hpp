// The candidates of a shell: collected, filtered and measured in blocks, so that their memory can be prefetched.
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
    Candidates(const Tables& tables, const Codes& codes, const std::uint8_t* query, std::uint64_t query_tail,
               Receiver& receiver, Budget& budget, const SeenFilter& seen)
        : tables_(tables),
          codes_(codes),
          query_(query),
          query_tail_(query_tail),
          receiver_(receiver),
          budget_(budget),
          seen_(seen) {}

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
        const Table& primary = tables_.table[0];
        std::size_t count = 0;
        for (std::size_t i = 0; i < candidates; ++i) {
            if (!seen_.first_seen_here(primary.entry(candidate_[i].row) ^ query_tail_)) continue;
            __builtin_prefetch(&tables_.rows[candidate_[i].row]);
            candidate_[count++] = candidate_[i];
        }
        for (std::size_t i = 0; i < count; ++i) candidate_[i].row = tables_.rows[candidate_[i].row];
        if (!tables_.whole()) count = budget_.pay(count, measure_ns) ? measure(count) : 0;
        if (!budget_.pay(count, found_ns)) return;
        receiver_.take(candidate_, count);
    }

private:
    // Codes of more than 64 bits: keeps the candidates whose whole codes are within the limit.
    std::size_t measure(std::size_t candidates) {
        const std::size_t bytes = code_bytes(tables_.bits);
        constexpr std::size_t ahead = 16;
        const auto code = [&](std::size_t i) { return codes_.data + candidate_[i].row * bytes; };
        const std::int32_t limit = receiver_.limit();
        std::size_t count = 0;
        for (std::size_t i = 0; i < candidates + ahead; ++i) {
            if (i < candidates)
                for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(code(i) + at);
            if (i < ahead) continue;
            const std::uint8_t* const row = code(i - ahead);
            std::uint16_t distance;
            kernels_.distances(row, 1, bytes, query_, &distance);
            if (distance > limit || !seen_.first_seen_here_far(row)) continue;
            candidate_[count++] = {candidate_[i - ahead].row, distance};
        }
        return count;
    }

    const Tables& tables_;
    const Codes& codes_;
    const std::uint8_t* query_;
    const std::uint64_t query_tail_;
    Receiver& receiver_;
    Budget& budget_;
    const SeenFilter& seen_;
    const kernels::Kernels& kernels_ = active_kernels();
    std::size_t count_ = 0;
    Found candidate_[kernels::max_block_rows];  // until deliver(), `row` is the position in the primary
};

}  // namespace idcwh::multi
