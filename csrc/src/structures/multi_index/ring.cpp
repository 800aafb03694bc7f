// See ring.hpp.
#include "structures/multi_index/ring.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/dispatch.hpp"
#include "structures/multi_index/bucket_stage.hpp"
#include "structures/multi_index/seen_rows.hpp"
#include "structures/multi_index/shells.hpp"
#include "structures/multi_index/visits.hpp"

namespace idcwh::multi {
namespace {

using kernels::max_block_rows;

constexpr std::size_t many = 64;  // codes that are measured at once: they may end the search

class RingSearch {
public:
    RingSearch(const Tables& tables, const Codes& codes, const std::uint8_t* query, Receiver& receiver,
               const CostLimits& limits)
        : tables_(tables),
          codes_(codes),
          query_(query),
          receiver_(receiver),
          budget_(limits),
          values_(substring_values(tables, query)),
          visits_(tables, values_) {}

    // Returns false when it gave up.
    bool run() {
        for (at_ = 0; !finished() && visits_.has(at_); ++at_) {
            if (!budget_.pay(visits_.take_counted(), count_ns)) return false;
            buckets_ = 0;
            visit_ = visits_[at_];
            visit_shell();
            if (budget_.gave_up()) return false;
        }
        measure();
        return !budget_.gave_up();
    }
    double spent() const { return budget_.spent(); }

private:
    // No unseen code is near enough. This can become true in the middle of a shell.
    bool finished() const { return receiver_.limit() < static_cast<std::int32_t>(at_); }

    bool worth_it() {
        return budget_.worth_it([&](double enough) {
            const unsigned width = tables_.table[visit_.table].substring.width;
            const double all = choose(width, static_cast<unsigned>(visit_.radius));
            return visits_.rest_ns(at_, std::min(buckets_ / all, 1.0), receiver_.limit(), enough);
        });
    }

    void visit_shell() {
        const Table& table = tables_.table[visit_.table];
        query_entry_ = values_[(visit_.table + 1) % values_.size()];
        const Shell shell(values_[visit_.table], table.substring.width, static_cast<unsigned>(visit_.radius));
        const bool all = BucketStage::visit(
            table, shell, [this, &table](const Bucket& bucket) { return stage_bucket(table, bucket); },
            [this](std::size_t buckets) {
                buckets_ += static_cast<double>(buckets);
                return budget_.pay(buckets, bucket_ns);
            });
        if (all) flush(table);
    }

    // Returns false when the rest of the shell need not be visited.
    bool stage_bucket(const Table& table, const Bucket& bucket) {
        if (!BucketStage::copies(table, bucket)) return read_in_place(table, bucket);
        if (!stage_.has_room(bucket) && !flush(table)) return false;
        stage_.copy(table, bucket);
        return true;
    }

    // Compares the copied entries with the query.
    bool flush(const Table& table) {
        if (stage_.size() && !finished() && budget_.pay(stage_.size(), entry_ns)) {
            const std::int32_t limit = visits_.entry_limit(visit_, receiver_.limit());
            stage_.scan_copied(table, query_entry_, limit, [this, &table](std::size_t at, int) { add(table, at); });
            deliver(table);
        }
        stage_.clear();
        return !finished() && worth_it();
    }

    // Compares a long bucket, a piece at a time. The rows ascend, so it may end early.
    bool read_in_place(const Table& table, const Bucket& bucket) {
        std::size_t piece = 64;
        for (std::size_t at = bucket.begin; at < bucket.end; at += piece, piece = std::min(2 * piece, max_block_rows)) {
            piece = std::min(piece, bucket.end - at);
            const std::int32_t wanted = receiver_.limit_from(table.rows[at]);
            if (wanted < static_cast<std::int32_t>(at_)) break;
            if (!budget_.pay(piece, entry_ns)) return false;
            stage_.scan_in_place(table, at, piece, query_entry_, visits_.entry_limit(visit_, wanted),
                                 [this, &table](std::size_t position, int) { add(table, position); });
            deliver(table);
            if (!worth_it()) return false;
        }
        return !finished();
    }

    // deliver() follows at most max_block_rows calls.
    void add(const Table& table, std::size_t position) {
        __builtin_prefetch(&table.rows[position]);
        position_[positions_++] = static_cast<std::uint32_t>(position);
    }

    // Measures the codes that the last call has prefetched, and prefetches those of the entries found since then. So
    // the memory of the few codes of a shell is read while the next shell is visited.
    void deliver(const Table& table) {
        measure();
        if (positions_ && !budget_.pay(positions_, measure_ns)) return;
        const std::size_t bytes = code_bytes(tables_.bits);
        for (; count_ < positions_; ++count_) {
            found_[count_].row = table.rows[position_[count_]];
            const std::uint8_t* const code = codes_.data + found_[count_].row * bytes;
            for (std::size_t at = 0; at < bytes; at += 64) __builtin_prefetch(code + at);
        }
        if (positions_ >= many) measure();
        positions_ = 0;
    }

    // Passes the rows within the limit to the receiver, each once.
    void measure() {
        const std::size_t bytes = code_bytes(tables_.bits);
        const std::int32_t limit = receiver_.limit();
        std::size_t count = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            std::uint16_t distance;
            kernels_.distances(codes_.data + found_[i].row * bytes, 1, bytes, query_, &distance);
            if (distance <= limit && taken_.insert(found_[i].row)) found_[count++] = {found_[i].row, distance};
        }
        count_ = 0;
        if (budget_.pay(count, found_ns)) receiver_.take(found_, count);
    }

    const Tables& tables_;
    const Codes& codes_;
    const std::uint8_t* query_;
    Receiver& receiver_;
    Budget budget_;
    const std::vector<std::uint32_t> values_;  // the query's substrings
    Visits visits_;

    // The shell being visited.
    std::size_t at_ = 0;
    Visits::Visit visit_{};
    double buckets_ = 0;             // visited so far
    std::uint64_t query_entry_ = 0;  // compared with its entries

    const kernels::Kernels& kernels_ = active_kernels();
    SeenRows taken_;
    std::size_t positions_ = 0, count_ = 0;
    std::uint32_t position_[max_block_rows];  // in the table of this shell
    Found found_[max_block_rows];             // rows whose codes have been prefetched
    BucketStage stage_;
};

}  // namespace

bool search_ring(const Tables& tables, const Codes& codes, const std::uint8_t* query, Receiver& receiver,
                 const CostLimits& limits, double& spent_ns) {
    // On the heap: its buffers are too large for the stacks of small threads.
    const auto search = std::make_unique<RingSearch>(tables, codes, query, receiver, limits);
    const bool complete = search->run();
    spent_ns = search->spent();
    return complete;
}

}  // namespace idcwh::multi
