// See search.hpp.
//
// A shell is visited in a pipeline: where its buckets begin is prefetched two steps ahead, their entries one step.
// Short buckets are staged (bucket_stage.hpp); long ones are read in place. Each candidate passes the SeenFilter.
#include "structures/multi_index/search.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/dispatch.hpp"
#include "structures/multi_index/bucket_stage.hpp"
#include "structures/multi_index/seen_filter.hpp"
#include "structures/multi_index/shells.hpp"

namespace idcwh::multi {
namespace {

using kernels::Hit;
using kernels::max_block_rows;

constexpr std::size_t step = 64;           // buckets per step of the pipeline
constexpr std::size_t long_bucket = 1024;  // entries from which a bucket is read in place
constexpr std::size_t short_lookup = 48;   // entries up to which a bucket that was looked up is measured one by one
constexpr std::size_t first_lookups = 1 << 16;  // look-ups collected before repetitions are dropped the first time

// The loop over search radii: each turn searches one table at the next radius of its substring.
class Search {
public:
    Search(const Tables& tables, const Codes& codes, const std::uint8_t* query, Receiver& receiver,
           const Budget& budget)
        : tables_(tables),
          primary_(tables.table[0]),
          codes_(codes),
          query_(query),
          receiver_(receiver),
          budget_(budget),
          query_tail_(Field(tables.bits, primary_.chunk.width, primary_.entry_bits).of_code(query)),
          substrings_(chunk_values(tables, query)),
          shells_(tables, substrings_.data()),
          seen_(tables, substrings_) {}

    bool run() {
        while (!finished() && !shells_.all_seen()) {
            table_ = shells_.cheapest(receiver_.limit());
            if (!budget_.pay(shells_.take_counted(), count_ns)) return false;
            radius_ = shells_.done(table_) + 1;
            entries_ = 0;
            buckets_ = 0;
            seen_.prepare(shells_, table_, radius_);
            visit_shell();
            look_up();
            if (budget_.exhausted()) return false;
            if (finished()) return true;
            shells_.finish(table_, entries_);
        }
        return true;
    }
    double spent() const { return budget_.spent(); }

private:
    struct Bucket {
        std::uint32_t begin, end;  // positions in the table
    };

    // Returns true when no unseen code is near enough. Holds in the middle of a shell, too.
    bool finished() const { return receiver_.limit() < shells_.covered(); }

    bool worth_it() {
        return budget_.worth_it([this](double enough) {
            const double visited = buckets_ / choose(tables_.table[table_].chunk.width, static_cast<unsigned>(radius_));
            return shells_.rest_ns(receiver_.limit(), table_, std::min(visited, 1.0), enough);
        });
    }

    // The largest distance of an entry that can belong to a code within the limit. An entry of the primary is the tail
    // of a code. An entry of another table is substring 0 of a code, whose other substrings are unseen.
    std::int32_t entry_limit(std::int32_t limit) const {
        return limit - radius_ - (table_ ? shells_.elsewhere(table_) : 0);
    }

    // Searches the buckets of table_ at radius_.
    void visit_shell() {
        const Table& table = tables_.table[table_];
        query_entry_ = table_ ? substrings_[0] : query_tail_;
        Shell shell(substrings_[table_], table.chunk.width, static_cast<unsigned>(radius_));
        std::uint32_t ahead[step];
        Bucket ready[step];
        std::size_t coming = shell.next(ahead, step), there = 0;
        for (std::size_t i = 0; i < coming; ++i) __builtin_prefetch(&table.begins[ahead[i]]);
        while (coming || there) {
            for (std::size_t i = 0; i < there; ++i)
                if (!stage_bucket(ready[i])) return;
            there = 0;
            for (std::size_t i = 0; i < coming; ++i) {
                const std::uint32_t begin = table.begins[ahead[i]], end = table.begins[ahead[i] + 1];
                ready[there] = {begin, end};
                there += begin < end;
                BucketStage::prefetch(table, begin, end - begin);
            }
            buckets_ += static_cast<double>(coming);
            if (!budget_.pay(coming, bucket_ns)) return;
            coming = shell.next(ahead, step);
            for (std::size_t i = 0; i < coming; ++i) __builtin_prefetch(&table.begins[ahead[i]]);
        }
        flush();
    }

    // Returns false when the rest of the shell need not be visited.
    bool stage_bucket(const Bucket& bucket) {
        const Table& table = tables_.table[table_];
        const std::size_t size = bucket.end - bucket.begin;
        entries_ += size;
        if (size >= long_bucket || table.entry_bytes == 0) return read_in_place(bucket);
        if (!stage_.has_room(size) && !flush()) return false;
        stage_.add(table, bucket.begin, size);
        return true;
    }

    // Measures the staged entries. Returns false like stage_bucket().
    bool flush() {
        const std::int32_t limit = entry_limit(receiver_.limit());
        if (stage_.size() && limit >= 0) {
            const std::size_t count = scan(stage_.entries(), stage_.size(), tables_.table[table_].entry_bytes, limit);
            stage_.for_each_hit(hits_, count,
                                [this](std::size_t position, int distance) { on_hit(position, distance); });
            deliver();
        }
        stage_.clear();
        return !finished() && worth_it();
    }

    // Measures a long bucket, a piece at a time. In the primary the rows ascend, so that it may end early.
    bool read_in_place(const Bucket& bucket) {
        const Table& table = tables_.table[table_];
        std::size_t piece = 64;
        for (std::size_t at = bucket.begin; at < bucket.end; at += piece, piece = std::min(2 * piece, max_block_rows)) {
            piece = std::min(piece, bucket.end - at);
            const std::int32_t wanted = table_ ? receiver_.limit() : receiver_.limit_from(tables_.rows[at]);
            if (wanted < shells_.covered()) break;
            const std::int32_t limit = entry_limit(wanted);
            if (table.entry_bytes == 0) {
                if (!budget_.pay(piece, entry_ns)) return false;
                for (std::size_t i = 0; i < piece; ++i) on_hit(at + i, 0);
            } else {
                const std::uint8_t* const from = table.entries.data() + at * table.entry_bytes;
                const std::size_t count = scan(from, piece, table.entry_bytes, limit);
                for (std::size_t i = 0; i < count; ++i) on_hit(at + hits_[i].row, hits_[i].distance);
            }
            deliver();
            if (!worth_it()) return false;
        }
        return !finished();
    }

    // Measures entries with a kernel. Returns the number of hits, 0 where the budget does not suffice.
    std::size_t scan(const std::uint8_t* entries, std::size_t count, std::size_t bytes, std::int32_t limit) {
        if (!budget_.pay(count, entry_ns)) return 0;
        return kernels_.scan(entries, count, bytes, reinterpret_cast<const std::uint8_t*>(&query_entry_),
                             static_cast<std::uint32_t>(limit), hits_);
    }

    // Takes an entry of this shell that is near enough. In the primary it is a candidate; in another table it leads to
    // a bucket of the primary.
    void on_hit(std::size_t position, int distance) {
        if (table_ == 0) {
            candidate_[candidates_++] = {static_cast<std::uint32_t>(position), radius_ + distance};
        } else if (distance > shells_.done(0)) {
            const auto bucket = static_cast<std::uint32_t>(tables_.table[table_].entry(position));
            if (lookups_.empty() || lookups_.back() != bucket) lookups_.push_back(bucket);
            if (lookups_.size() >= drop_at_) drop_repeated();
        }
    }

    void drop_repeated() {
        if (!budget_.pay(lookups_.size(), candidate_ns)) return lookups_.clear();
        std::sort(lookups_.begin(), lookups_.end());
        lookups_.erase(std::unique(lookups_.begin(), lookups_.end()), lookups_.end());
        drop_at_ = std::max(first_lookups, 2 * lookups_.size());
    }

    // Visits the buckets of the primary that entries of another table have led to, each once.
    void look_up() {
        if (budget_.exhausted() || finished()) return;
        drop_repeated();
        if (budget_.exhausted()) return;
        query_entry_ = query_tail_;
        constexpr std::size_t far = 24, near = 12;
        const std::size_t count = lookups_.size();
        for (std::size_t i = 0; i < count + far; ++i) {
            if (i < count) __builtin_prefetch(&primary_.begins[lookups_[i]]);
            if (i >= near && i < count + near) {
                const std::size_t at = primary_.begins[lookups_[i - near]] * primary_.entry_bytes;
                __builtin_prefetch(primary_.entries.data() + at);
                __builtin_prefetch(primary_.entries.data() + at + 63);
            }
            if (i < far) continue;
            look_up(lookups_[i - far]);
            if (finished() || !worth_it()) break;
        }
        deliver();
        lookups_.clear();
    }

    void look_up(std::uint32_t bucket) {
        const int distance = static_cast<int>(ones(bucket ^ substrings_[0]));
        const std::size_t begin = primary_.begins[bucket], end = primary_.begins[bucket + 1];
        const std::int32_t limit = receiver_.limit() - distance;
        if (!budget_.pay(lookup_ns) || limit < 0) return;
        if (end - begin <= short_lookup || primary_.entry_bytes == 0) {
            for (std::size_t at = begin; at < end; ++at) {
                const std::uint64_t difference = primary_.entry(at) ^ query_tail_;
                if (!seen_.first_seen_here(difference)) continue;
                const int tail = static_cast<int>(ones(difference));
                if (tail <= limit) add_candidate(at, distance + tail);
            }
            return;
        }
        for (std::size_t at = begin; at < end && !budget_.exhausted(); at += max_block_rows) {
            const std::size_t piece = std::min(max_block_rows, end - at);
            const std::size_t count =
                scan(primary_.entries.data() + at * primary_.entry_bytes, piece, primary_.entry_bytes, limit);
            for (std::size_t i = 0; i < count; ++i) add_candidate(at + hits_[i].row, distance + hits_[i].distance);
        }
    }

    void add_candidate(std::size_t position, int distance) {
        if (candidates_ == max_block_rows) deliver();
        candidate_[candidates_++] = {static_cast<std::uint32_t>(position), distance};
    }

    // Gives the receiver the candidates that are seen for the first time.
    void deliver() {
        const std::size_t candidates = candidates_;
        candidates_ = 0;
        if (candidates == 0 || !budget_.pay(candidates, candidate_ns)) return;
        std::size_t count = 0;
        for (std::size_t i = 0; i < candidates; ++i) {
            if (!seen_.first_seen_here(primary_.entry(candidate_[i].row) ^ query_tail_)) continue;
            __builtin_prefetch(&tables_.rows[candidate_[i].row]);
            candidate_[count++] = candidate_[i];
        }
        for (std::size_t i = 0; i < count; ++i) candidate_[i].row = tables_.rows[candidate_[i].row];
        if (!tables_.whole()) count = budget_.pay(count, measure_ns) ? measure(count) : 0;
        if (!budget_.pay(count, found_ns)) return;
        receiver_.take(candidate_, count);
    }

    // Codes of more than 64 bits: keeps the candidates whose whole code is within the limit. Returns their number.
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
            if (distance > limit || !seen_.first_seen_here(row)) continue;
            candidate_[count++] = {candidate_[i - ahead].row, distance};
        }
        return count;
    }

    const Tables& tables_;
    const Table& primary_;
    const Codes& codes_;
    const std::uint8_t* query_;
    Receiver& receiver_;
    const kernels::Kernels& kernels_ = active_kernels();
    Budget budget_;

    const std::uint64_t query_tail_;               // the query's bits behind substring 0, as in an entry of the primary
    const std::vector<std::uint32_t> substrings_;  // of the query
    Shells shells_;
    SeenFilter seen_;

    // The shell being visited: the buckets of table_ at radius_.
    std::size_t table_ = 0;
    int radius_ = 0;
    std::size_t entries_ = 0;  // of its buckets so far
    double buckets_ = 0;
    std::uint64_t query_entry_ = 0;       // what its entries are compared to
    std::vector<std::uint32_t> lookups_;  // buckets of the primary
    std::size_t drop_at_ = first_lookups;

    std::size_t candidates_ = 0;
    BucketStage stage_;
    Hit hits_[max_block_rows];
    Found candidate_[max_block_rows];  // at first with the position in the primary in place of the row
};

}  // namespace

bool search(const Tables& tables, const Codes& codes, const std::uint8_t* query, Receiver& receiver,
            const Budget& budget, double& spent_ns) {
    // On the heap: its buffers are too much for the stacks of small threads.
    const auto search = std::make_unique<Search>(tables, codes, query, receiver, budget);
    const bool complete = search->run();
    spent_ns = search->spent();
    return complete;
}

}  // namespace idcwh::multi
