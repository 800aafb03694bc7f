// See search.hpp. The parts of a search are in headers, because calls between them would slow the inner loops down.
#include "structures/multi_index/search.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "structures/multi_index/bucket_stage.hpp"
#include "structures/multi_index/candidates.hpp"
#include "structures/multi_index/lookups.hpp"
#include "structures/multi_index/ring.hpp"
#include "structures/multi_index/seen_filter.hpp"
#include "structures/multi_index/shells.hpp"

namespace idcwh::multi {
namespace {

using kernels::max_block_rows;

constexpr std::size_t short_lookup = 48;  // entries up to which a bucket of the primary is compared one by one

class Search {
public:
    Search(const Tables& tables, const std::uint8_t* query, Receiver& receiver, const CostLimits& limits)
        : tables_(tables),
          primary_(tables.table[0]),
          receiver_(receiver),
          budget_(limits),
          query_tail_(Field(tables.bits, primary_.rest.offset, primary_.rest.width).of_code(query)),
          values_(substring_values(tables, query)),
          shells_(tables, values_.data()),
          seen_(tables, values_),
          candidates_(primary_, query_tail_, receiver, budget_, seen_) {}

    // Returns false when it gave up.
    bool run() {
        for (;;) {
            if (finished() || shells_.all_seen()) return true;
            table_ = shells_.cheapest(receiver_.limit());
            if (!budget_.pay(shells_.take_counted(), count_ns)) return false;
            radius_ = shells_.done(table_) + 1;
            entries_ = 0;
            buckets_ = 0;
            seen_.prepare_checks(shells_, table_, radius_);
            visit_shell();
            look_up();
            if (budget_.gave_up()) return false;
            if (finished()) return true;
            shells_.finish(table_, entries_);
        }
    }
    double spent() const { return budget_.spent(); }

private:
    // No unseen code is near enough. This can become true in the middle of a shell.
    bool finished() const { return receiver_.limit() < shells_.covered(); }

    bool worth_it() {
        return budget_.worth_it([&](double enough) {
            const double all = choose(tables_.table[table_].substring.width, static_cast<unsigned>(radius_));
            return shells_.rest_ns(receiver_.limit(), table_, std::min(buckets_ / all, 1.0), enough);
        });
    }

    // An entry of the primary is the rest of a code. An entry of another table is substring 0 of a code. It must be so
    // near that the other substrings of an unseen code can be within the limit.
    std::int32_t entry_limit(std::int32_t limit) const {
        return limit - radius_ - (table_ ? shells_.elsewhere(table_) : 0);
    }

    void visit_shell() {
        const Table& table = tables_.table[table_];
        query_entry_ = table_ ? values_[0] : query_tail_;
        const Shell shell(values_[table_], table.substring.width, static_cast<unsigned>(radius_));
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
        entries_ += bucket.size();
        if (!BucketStage::copies(table, bucket)) return read_in_place(table, bucket);
        if (!stage_.has_room(bucket) && !flush(table)) return false;
        stage_.copy(table, bucket);
        return true;
    }

    // Compares the copied entries with the query.
    bool flush(const Table& table) {
        const std::int32_t limit = entry_limit(receiver_.limit());
        if (stage_.size() && limit >= 0) {
            if (budget_.pay(stage_.size(), entry_ns))
                with_on_hit(table, [&](auto on_hit) { stage_.scan_copied(table, query_entry_, limit, on_hit); });
            candidates_.deliver();
        }
        stage_.clear();
        return !finished() && worth_it();
    }

    // Compares a long bucket, a piece at a time. In the primary the rows ascend, so that it may end early.
    bool read_in_place(const Table& table, const Bucket& bucket) {
        std::size_t piece = 64;
        for (std::size_t at = bucket.begin; at < bucket.end; at += piece, piece = std::min(2 * piece, max_block_rows)) {
            piece = std::min(piece, bucket.end - at);
            const std::int32_t wanted = table_ ? receiver_.limit() : receiver_.limit_from(primary_.rows[at]);
            if (wanted < shells_.covered()) break;
            if (!budget_.pay(piece, entry_ns)) return false;
            with_on_hit(table, [&](auto on_hit) {
                if (table.entry_bytes == 0)
                    for (std::size_t i = 0; i < piece; ++i) on_hit(at + i, 0);
                else
                    stage_.scan_in_place(table, at, piece, query_entry_, entry_limit(wanted), on_hit);
            });
            candidates_.deliver();
            if (!worth_it()) return false;
        }
        return !finished();
    }

    // Calls scan(on_hit), where on_hit(position, distance) takes an entry of this shell that is near enough.
    template <class Scan>
    void with_on_hit(const Table& table, Scan scan) {
        if (table_ == 0) return scan([this](std::size_t at, int distance) { candidates_.add(at, radius_ + distance); });
        scan([this, &table](std::size_t at, int distance) {
            if (distance > shells_.done(0)) lookups_.add(static_cast<std::uint32_t>(table.entry(at)), budget_);
        });
    }

    // Visits the buckets of the primary that entries of another table have led to, each once.
    void look_up() {
        if (budget_.gave_up() || finished()) return;
        lookups_.drop_repeated(budget_);
        if (budget_.gave_up()) return;
        query_entry_ = query_tail_;
        lookups_.visit(primary_, [this](std::uint32_t bucket) {
            look_up(bucket);
            return !finished() && worth_it();
        });
        candidates_.deliver();
    }

    void look_up(std::uint32_t bucket) {
        const int distance = static_cast<int>(ones(bucket ^ values_[0]));
        const std::size_t begin = primary_.begins[bucket], end = primary_.begins[bucket + 1];
        const std::int32_t limit = receiver_.limit() - distance;
        if (!budget_.pay(lookup_ns) || limit < 0) return;
        if (end - begin <= short_lookup || primary_.entry_bytes == 0) {
            for (std::size_t at = begin; at < end; ++at) {
                const std::uint64_t difference = primary_.entry(at) ^ query_tail_;
                if (!seen_.no_checks() && !seen_.first_seen_here(difference)) continue;
                const int rest = static_cast<int>(ones(difference));
                if (rest <= limit) candidates_.add(at, distance + rest);
            }
            return;
        }
        for (std::size_t at = begin; at < end; at += max_block_rows) {
            const std::size_t piece = std::min(max_block_rows, end - at);
            if (!budget_.pay(piece, entry_ns)) return;
            stage_.scan_in_place(
                primary_, at, piece, query_entry_, limit,
                [this, distance](std::size_t position, int rest) { candidates_.add(position, distance + rest); });
        }
    }

    const Tables& tables_;
    const Table& primary_;
    Receiver& receiver_;
    Budget budget_;

    const std::uint64_t query_tail_;           // the query's bits behind substring 0, as in an entry of the primary
    const std::vector<std::uint32_t> values_;  // the query's substrings
    Shells shells_;
    SeenFilter seen_;

    // The shell being visited: the values of substring table_ at distance radius_.
    std::size_t table_ = 0;
    int radius_ = 0;
    std::size_t entries_ = 0;        // size of its buckets so far
    double buckets_ = 0;             // visited so far
    std::uint64_t query_entry_ = 0;  // compared with its entries

    Lookups lookups_;
    Candidates candidates_;
    BucketStage stage_;
};

}  // namespace

bool search(const Tables& tables, const Codes& codes, const std::uint8_t* query, Receiver& receiver,
            const CostLimits& limits, double& spent_ns) {
    if (is_ring(tables.bits)) return search_ring(tables, codes, query, receiver, limits, spent_ns);
    // On the heap: its buffers are too large for the stacks of small threads.
    const auto search = std::make_unique<Search>(tables, query, receiver, limits);
    const bool complete = search->run();
    spent_ns = search->spent();
    return complete;
}

}  // namespace idcwh::multi
