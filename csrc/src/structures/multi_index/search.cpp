// See search.hpp.
//
// A shell is visited in a pipeline: where its buckets begin is prefetched two steps ahead, their entries one step.
// Short buckets are copied one behind the other, so that the kernels see thousands of entries at a time and no branch
// depends on how long a bucket is; long ones are read where they lie.
//
// A code that is near in several chunks is reported the first time it is seen: where it is in a shell that another
// table has done, it was seen there. (It may have been too far then; it still is, for the limit only shrinks.)
#include "structures/multi_index/search.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "cpu/dispatch.hpp"
#include "structures/cost.hpp"
#include "structures/multi_index/shells.hpp"

namespace idcwh::multi {
namespace {

using kernels::Hit;
using kernels::max_block_rows;

constexpr std::size_t step = 64;             // buckets of a step of the pipeline
constexpr std::size_t most_segments = 1024;  // buckets copied before the kernels run
constexpr std::size_t long_bucket = 1024;    // entries from which a bucket is read where it lies
constexpr std::size_t short_lookup = 48;     // entries up to which a bucket that was looked up is measured one by one
constexpr std::size_t copy = 32;             // bytes copied at once; at most load_slack
constexpr std::size_t first_lookups = 1 << 16;  // look-ups collected before repetitions are dropped the first time
constexpr double probe_share = 0.05;            // of a scan: spent before asking whether the rest is worth it
constexpr double abandon_share =
    0.5;  // of a scan: a search that is expected to cost more gives up; these costs may be off by 2

// One class, because a split into a budget, a stage of buckets and a filter of seen codes made a radius search of short
// buckets 5 % slower (csrc/bench/multi_index.cpp, clustered, radius 8).
class Search {
public:
    Search(const Tables& tables, const Codes& codes, const std::uint8_t* query, Receiver& receiver,
           const Budget& budget)
        : tables_(tables),
          primary_(tables.table[0]),
          codes_(codes),
          query_(query),
          receiver_(receiver),
          scan_(budget.scan_ns),
          most_(std::min(abandon_share * budget.scan_ns, budget.most_ns)),
          ask_at_(std::max(probe_share * budget.scan_ns, budget.patience_ns)),
          query_tail_(Field(tables.bits, primary_.chunk.width, primary_.entry_bits).of_code(query)),
          values_(chunk_values(tables, query)),
          shells_(tables, values_.data()) {}

    bool run() {
        for (;;) {
            if (finished() || shells_.all_seen()) return true;
            table_ = shells_.cheapest(receiver_.limit());
            if (!pay(shells_.take_counted(), count_ns)) return false;
            shell_ = shells_.done(table_) + 1;
            entries_ = 0;
            buckets_ = 0;
            prepare_checks();
            visit_shell();
            look_up();
            if (gave_up_) return false;
            if (finished()) return true;
            shells_.finish(table_, entries_);
        }
    }
    double spent() const { return spent_; }

private:
    struct Run {
        std::uint32_t begin, end;
    };
    struct Segment {
        std::uint32_t first, position;  // in the stage, in the table
    };
    // Tells whether a code has been seen by another table, from its differences with the query.
    struct Check {
        unsigned shift;
        std::uint64_t mask;
        unsigned least, most;  // distance in the chunk
        Field chunk;
        std::uint32_t value;
    };

    // Nothing unseen is near enough. Holds in the middle of a shell, too.
    bool finished() const { return receiver_.limit() < shells_.covered(); }

    // Every step is paid for before it is done. False, and the search gives up, when it costs more than is left.
    bool pay(double ns) {
        gave_up_ = gave_up_ || spent_ + ns > most_;
        if (!gave_up_) spent_ += ns;
        return !gave_up_;
    }
    bool pay(std::size_t count, double ns) { return pay(static_cast<double>(count) * ns); }

    // Whether to continue. Little is lost by a probe; after it the rest must look cheaper than a scan.
    bool worth_it() {
        if (gave_up_) return false;
        if (spent_ < ask_at_) return true;
        ask_at_ = spent_ + probe_share / 2 * scan_;
        const double partly = buckets_ / choose(tables_.table[table_].chunk.width, static_cast<unsigned>(shell_));
        gave_up_ = spent_ + shells_.rest_ns(receiver_.limit(), table_, std::min(partly, 1.0), abandon_share * scan_) >=
                   abandon_share * scan_;
        return !gave_up_;
    }

    // An entry of the primary is the rest of a code; one of another table is chunk 0 of a code, and must be so near
    // that the other chunks, unseen, can be within the limit.
    std::int32_t entry_limit(std::int32_t limit) const {
        return limit - shell_ - (table_ ? shells_.elsewhere(table_) : 0);
    }

    void prepare_checks() {
        checks_.clear();
        far_checks_.clear();
        for (std::size_t t = 1; t < values_.size(); ++t) {
            if (t != table_ && shells_.done(t) < 0) continue;
            const Chunk chunk = tables_.table[t].chunk;
            const bool near = chunk.offset + chunk.width <= primary_.chunk.width + primary_.entry_bits;
            (near ? checks_ : far_checks_)
                .push_back({near ? chunk.offset - primary_.chunk.width : 0, low_mask(chunk.width),
                            static_cast<unsigned>(shells_.done(t) + 1),
                            t == table_ ? static_cast<unsigned>(shell_) : chunk.width,
                            Field(tables_.bits, chunk.offset, chunk.width), values_[t]});
        }
    }

    void visit_shell() {
        const Table& table = tables_.table[table_];
        query_entry_ = table_ ? values_[0] : query_tail_;
        Shell shell(values_[table_], table.chunk.width, static_cast<unsigned>(shell_));
        std::uint32_t ahead[step];
        Run runs[step];
        std::size_t coming = shell.next(ahead, step), there = 0;
        for (std::size_t i = 0; i < coming; ++i) __builtin_prefetch(&table.begins[ahead[i]]);
        while (coming || there) {
            for (std::size_t i = 0; i < there; ++i)
                if (!stage_bucket(runs[i])) return;
            there = 0;
            for (std::size_t i = 0; i < coming; ++i) {
                const std::uint32_t begin = table.begins[ahead[i]], end = table.begins[ahead[i] + 1];
                runs[there] = {begin, end};
                there += begin < end;
                // All that will be copied: a bucket in the middle of a line may reach into the next one.
                const std::uint8_t* const from = table.entries.data() + begin * table.entry_bytes;
                const std::size_t last = std::clamp<std::size_t>((end - begin) * table.entry_bytes, copy, 1024) - 1;
                __builtin_prefetch(from);
                for (std::size_t at = 64; at < last; at += 64) __builtin_prefetch(from + at);
                __builtin_prefetch(from + last);
            }
            buckets_ += static_cast<double>(coming);
            if (!pay(coming, bucket_ns)) return;
            coming = shell.next(ahead, step);
            for (std::size_t i = 0; i < coming; ++i) __builtin_prefetch(&table.begins[ahead[i]]);
        }
        flush();
    }

    // False when the rest of the shell need not be visited.
    bool stage_bucket(const Run& run) {
        const Table& table = tables_.table[table_];
        const std::size_t size = run.end - run.begin;
        entries_ += size;
        if (size >= long_bucket || table.entry_bytes == 0) return read_in_place(run);
        if ((staged_ + size > max_block_rows || segments_ == most_segments) && !flush()) return false;
        segment_[segments_++] = {static_cast<std::uint32_t>(staged_), run.begin};
        const std::uint8_t* from = table.entries.data() + run.begin * table.entry_bytes;
        std::uint8_t* to = stage_ + staged_ * table.entry_bytes;
        const std::uint8_t* const end = to + size * table.entry_bytes;
        for (; to < end; to += copy, from += copy) std::memcpy(to, from, copy);
        staged_ += size;
        return true;
    }

    // Measures the entries that were copied.
    bool flush() {
        const Table& table = tables_.table[table_];
        const std::size_t staged = staged_, segments = segments_;
        staged_ = segments_ = 0;
        const std::int32_t limit = entry_limit(receiver_.limit());
        if (staged && limit >= 0) {
            const std::size_t count = scan(stage_, staged, table.entry_bytes, limit);
            for (std::size_t i = 0, s = 0; i < count; ++i) {
                while (s + 1 < segments && segment_[s + 1].first <= hits_[i].row) ++s;
                on_hit(segment_[s].position + (hits_[i].row - segment_[s].first), hits_[i].distance);
            }
            deliver();
        }
        return !finished() && worth_it();
    }

    // Measures a long bucket, a piece at a time. In the primary the rows ascend, so that it may end early.
    bool read_in_place(const Run& run) {
        const Table& table = tables_.table[table_];
        std::size_t piece = 64;
        for (std::size_t at = run.begin; at < run.end; at += piece, piece = std::min(2 * piece, max_block_rows)) {
            piece = std::min(piece, run.end - at);
            const std::int32_t wanted = table_ ? receiver_.limit() : receiver_.limit_from(tables_.rows[at]);
            if (wanted < shells_.covered()) break;
            const std::int32_t limit = entry_limit(wanted);
            if (table.entry_bytes == 0) {
                if (!pay(piece, entry_ns)) return false;
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

    std::size_t scan(const std::uint8_t* entries, std::size_t count, std::size_t bytes, std::int32_t limit) {
        if (!pay(count, entry_ns)) return 0;
        return kernels_.scan(entries, count, bytes, reinterpret_cast<const std::uint8_t*>(&query_entry_),
                             static_cast<std::uint32_t>(limit), hits_);
    }

    // An entry of this shell that is near enough.
    void on_hit(std::size_t position, int distance) {
        if (table_ == 0) {
            candidate_[candidates_++] = {static_cast<std::uint32_t>(position), shell_ + distance};
        } else if (distance > shells_.done(0)) {
            const auto bucket = static_cast<std::uint32_t>(tables_.table[table_].entry(position));
            if (lookups_.empty() || lookups_.back() != bucket) lookups_.push_back(bucket);
            if (lookups_.size() >= drop_at_) drop_repeated();
        }
    }

    void drop_repeated() {
        if (!pay(lookups_.size(), candidate_ns)) return lookups_.clear();
        std::sort(lookups_.begin(), lookups_.end());
        lookups_.erase(std::unique(lookups_.begin(), lookups_.end()), lookups_.end());
        drop_at_ = std::max(first_lookups, 2 * lookups_.size());
    }

    // Visits the buckets of the primary that entries of another table have led to, each once.
    void look_up() {
        if (gave_up_ || finished()) return;
        drop_repeated();
        if (gave_up_) return;
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
        const int distance = static_cast<int>(ones(bucket ^ values_[0]));
        const std::size_t begin = primary_.begins[bucket], end = primary_.begins[bucket + 1];
        const std::int32_t limit = receiver_.limit() - distance;
        if (!pay(lookup_ns) || limit < 0) return;
        if (end - begin <= short_lookup || primary_.entry_bytes == 0) {
            for (std::size_t at = begin; at < end; ++at) {
                const std::uint64_t difference = primary_.entry(at) ^ query_tail_;
                if (!checks_.empty() && !first_seen_here(difference)) continue;
                const int rest = static_cast<int>(ones(difference));
                if (rest <= limit) add_candidate(at, distance + rest);
            }
            return;
        }
        for (std::size_t at = begin; at < end && !gave_up_; at += max_block_rows) {
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

    bool first_seen_here(std::uint64_t difference) const {
        for (const Check& check : checks_) {
            const unsigned distance = ones((difference >> check.shift) & check.mask);
            if (distance < check.least || distance > check.most) return false;
        }
        return true;
    }

    // Gives the candidates that are seen for the first time to the receiver.
    void deliver() {
        const std::size_t candidates = candidates_;
        candidates_ = 0;
        if (candidates == 0 || !pay(candidates, candidate_ns)) return;
        std::size_t count = 0;
        for (std::size_t i = 0; i < candidates; ++i) {
            if (!first_seen_here(primary_.entry(candidate_[i].row) ^ query_tail_)) continue;
            __builtin_prefetch(&tables_.rows[candidate_[i].row]);
            candidate_[count++] = candidate_[i];
        }
        for (std::size_t i = 0; i < count; ++i) candidate_[i].row = tables_.rows[candidate_[i].row];
        if (!tables_.whole()) count = pay(count, measure_ns) ? measure(count) : 0;
        if (!pay(count, found_ns)) return;
        receiver_.take(candidate_, count);
    }

    // Codes of more than 64 bits: of the rows that may be near, those that are.
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
            if (distance > limit || !first_seen_here_far(row)) continue;
            candidate_[count++] = {candidate_[i - ahead].row, distance};
        }
        return count;
    }

    bool first_seen_here_far(const std::uint8_t* code) const {
        for (const Check& check : far_checks_) {
            const unsigned distance = ones(check.chunk.of_code(code) ^ check.value);
            if (distance < check.least || distance > check.most) return false;
        }
        return true;
    }

    const Tables& tables_;
    const Table& primary_;
    const Codes& codes_;
    const std::uint8_t* query_;
    Receiver& receiver_;
    const kernels::Kernels& kernels_ = active_kernels();
    const double scan_, most_;
    double ask_at_, spent_ = cost::call_ns;
    bool gave_up_ = false;

    const std::uint64_t query_tail_;           // the query's bits behind chunk 0, as in an entry of the primary
    const std::vector<std::uint32_t> values_;  // the query's chunks
    Shells shells_;

    // The shell being visited: shell_ of table_.
    std::size_t table_ = 0;
    int shell_ = 0;
    std::size_t entries_ = 0;  // of its buckets so far
    double buckets_ = 0;
    std::uint64_t query_entry_ = 0;           // what its entries are compared to
    std::vector<Check> checks_, far_checks_;  // the far ones need the whole code
    std::vector<std::uint32_t> lookups_;      // buckets of the primary
    std::size_t drop_at_ = first_lookups;

    std::size_t staged_ = 0, segments_ = 0, candidates_ = 0;
    Segment segment_[most_segments];
    Hit hits_[max_block_rows];
    Found candidate_[max_block_rows];  // at first with the position in the primary in place of the row
    std::uint8_t stage_[max_block_rows * 8 + copy];
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
