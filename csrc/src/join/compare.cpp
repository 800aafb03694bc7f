// See compare.hpp.
#include "join/compare.hpp"

#include <algorithm>
#include <cstring>

#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "cpu/kernels/kernels.hpp"
#include "scan/scan.hpp"
#include "structures/multi_index/bits.hpp"
#include "structures/multi_index/shells.hpp"

namespace idcwh::join_detail {
namespace {

using kernels::Hit;
using kernels::tile_queries;

// The order of the pairs follows from these: they are the same for each instruction set.
constexpr std::size_t block_rows = 1024;
constexpr std::size_t task_pairs = std::size_t{1} << 22;
// A task of a large bucket: many blocks of rows with a few queries, whose tables stay in the second-level cache.
constexpr std::size_t task_queries = 256, task_rows = task_pairs / task_queries;
constexpr std::size_t least_head = 8;       // bytes
constexpr std::size_t head_samples = 4096;  // buckets
constexpr double most_through = 1.0 / 32;   // share of the sample that heads may let through

// Returns the number of rows from which spreading them to planes pays (benchmarks/join.py). Tables of half bytes take
// long to prepare.
std::size_t least_tile(const kernels::Kernels& kernels) { return kernels.planes_per_byte == 1 ? 24 : 96; }

constexpr std::size_t bytes_per_check = std::size_t{1} << 20;  // compared; some ten microseconds
constexpr std::size_t many_pairs = std::size_t{1} << 21;       // that wait in memory

}  // namespace

Comparison::Comparison(const JoinPlan& plan, std::size_t part, const Codes& a, const Codes& b, bool self,
                       unsigned radius, unsigned threads, Stop& stop)
    : plan_(plan), part_(part), bits_(a.bits), self_(self), radius_(static_cast<std::int32_t>(radius)) {
    const Part& by = plan.parts[part];
    rows_ = sort_by(by, a, threads, stop);
    if (!self_) queries_ = sort_by(by, b, threads, stop);
    if (!plan.scans()) copy_heads(threads, stop);
    std::uint32_t masks[64];
    for (unsigned distance = 0; distance <= by.threshold; ++distance) {
        multi::Shell shell(0, by.width, distance);
        while (const std::size_t count = shell.next(masks, 64)) masks_.insert(masks_.end(), masks, masks + count);
    }
}

// Copies the first bytes of the rows, if these alone keep nearly all codes of a bucket apart.
void Comparison::copy_heads(unsigned threads, Stop& stop) {
    const std::size_t n = rows_.numbers.size(), bytes = code_bytes(bits_), values = rows_.begins.size() - 1;
    const auto share_through = [&](std::size_t head) {
        std::size_t through = 0, sampled = 0;
        for (std::size_t value = 0; value < values; value += values / head_samples + 1) {
            const std::size_t first = rows_.begins[value], end = rows_.begins[value + 1];
            if (end - first < 2) continue;
            std::uint16_t distance;
            active_kernels().distances(rows_.codes.data() + first * bytes, 1, head,
                                       rows_.codes.data() + (end - 1) * bytes, &distance);
            through += distance <= radius_;
            ++sampled;
        }
        return sampled ? static_cast<double>(through) / static_cast<double>(sampled) : 1.0;
    };
    std::size_t head = least_head;
    while (head <= bytes / 2 && share_through(head) > most_through) head *= 2;
    if (head > bytes / 2) return;
    head_bytes_ = head;
    heads_ = HugeArray<std::uint8_t>(n * head, 64);
    const std::size_t tasks = std::min<std::size_t>(8 * threads, n);
    pool::run(
        tasks, threads,
        [&](std::size_t task) {
            stop.check();
            for (std::size_t i = n * task / tasks; i < n * (task + 1) / tasks; ++i)
                std::memcpy(heads_.data() + i * head, rows_.codes.data() + i * bytes, head);
        },
        stop.while_waiting());
}

// Returns the number of codes that a bucket is compared with. In a self-join, earlier buckets do not count.
std::size_t Comparison::near_codes(std::size_t bucket) const {
    const auto& begins = queries().begins;
    std::size_t sum = 0;
    for (const std::uint32_t mask : masks_) {
        const std::size_t near = bucket ^ mask;
        if (!self_ || near >= bucket) sum += begins[near + 1] - begins[near];
    }
    return sum;
}

bool Comparison::next(CompareTask& task) {
    const std::size_t begin = bucket_, buckets = rows_.begins.size() - 1;
    std::size_t pairs = 0;
    for (; bucket_ < buckets && pairs < task_pairs; ++bucket_) {
        const std::size_t rows = rows_.begins[bucket_ + 1] - rows_.begins[bucket_];
        const std::size_t near = rows ? near_codes(bucket_) : 0;
        if (near == 0) continue;
        if (near <= task_pairs / rows) {
            pairs += rows * near + masks_.size();
            continue;
        }
        if (pairs) break;
        // Cut into ranges of rows and of queries.
        task = {bucket_, bucket_ + 1,
                row_,    std::min(rows, row_ + task_rows),
                query_,  std::min(near, query_ + task_queries)};
        query_ += task_queries;
        if (query_ < near) return true;
        row_ += task_rows;
        // The bucket itself comes first. Its codes before the rows have been compared with them.
        query_ = self_ ? row_ / task_queries * task_queries : 0;
        if (row_ >= rows) ++bucket_, row_ = query_ = 0;
        return true;
    }
    task = {begin, bucket_, 0, 0, 0, 0};
    return pairs > 0;
}

// Returns true if an earlier part has found the pair.
bool Comparison::found_before(const std::uint8_t* a, const std::uint8_t* b) const {
    for (std::size_t p = 0; p < part_; ++p) {
        const Part& part = plan_.parts[p];
        const multi::Field field(bits_, part.offset, part.width);
        if (multi::ones(field.of_code(a) ^ field.of_code(b)) <= part.threshold) return true;
    }
    return false;
}

namespace {

// Sinks of pairs. add(count) counts pairs of which only the number matters, which blind() allows.
struct Collector {
    std::vector<CodePair>& found;
    static constexpr bool blind() { return false; }
    void add(std::size_t) {}
    void take(const CodePair& pair) { found.push_back(pair); }
};

struct Counter {
    const Repeats& repeats;
    std::uint64_t sum = 0;
    bool blind() const { return !repeats.a && !repeats.b; }
    void add(std::size_t count) { sum += count; }
    void take(const CodePair& pair) { sum += times(repeats.a, pair.first) * times(repeats.b, pair.second); }

private:
    static std::uint64_t times(const std::uint32_t* begins, std::uint32_t code) {
        return begins ? begins[code + 1] - begins[code] : 1;
    }
};

}  // namespace

// The memory of a thread: a block of rows, and the queries that it is compared with.
template <class Sink>
class Comparison::Runner {
public:
    // most_tables: queries whose tables are kept.
    Runner(const Comparison& comparison, std::size_t most_tables, Sink& sink, Stop& stop)
        : c_(comparison),
          kernels_(active_kernels()),
          bytes_(code_bytes(comparison.bits_)),
          blind_(sink.blind() && comparison.part_ == 0),
          sink_(sink),
          stop_(stop),
          table_size_(kernels_.spread ? kernels_.table_size(bytes_) : 0),
          planes_(kernels_.spread ? kernels_.planes_size(block_rows, bytes_) : 0),
          tables_(most_tables * table_size_),
          hits_(tile_queries * block_rows * sizeof(Hit)) {}

    // All rows of a bucket against all queries near it.
    void compare(std::size_t bucket) {
        const std::size_t rows = c_.rows_.begins[bucket + 1] - c_.rows_.begins[bucket];
        compare(bucket, 0, rows, 0, static_cast<std::size_t>(-1));
    }
    // Some of them. The tables of the queries are made once for all blocks of rows.
    void compare(const CompareTask& task) {
        prepared_ = kernels_.spread && c_.radius_ <= kernels::tile_max_limit;
        if (prepared_)
            each_near(task.bucket, task.query, task.end_query,
                      [&](std::uint32_t, std::size_t from, std::size_t to, std::size_t slot) {
                          for (; from < to; ++from) kernels_.prepare(query_code(from), bytes_, table(slot++));
                      });
        compare(task.bucket, task.row, task.end_row, task.query, task.end_query);
        prepared_ = false;
    }

private:
    // Calls use(mask, begin, end, slot) for the queries [first, last) of the buckets near one, a bucket at a time.
    // slot: the number of queries before them.
    template <class Use>
    void each_near(std::size_t bucket, std::size_t first, std::size_t last, Use use) const {
        const auto& begins = c_.queries().begins;
        std::size_t at = 0;  // queries so far
        for (const std::uint32_t mask : c_.masks_) {
            const std::size_t near = bucket ^ mask;
            if (c_.self_ && near < bucket) continue;
            const std::size_t count = begins[near + 1] - begins[near];
            const std::size_t from = first > at ? std::min(first - at, count) : 0;
            const std::size_t to = std::min(count, last > at ? last - at : 0);
            if (from < to) use(mask, begins[near] + from, begins[near] + to, at + from - first);
            at += count;
        }
    }

    void compare(std::size_t bucket, std::size_t row, std::size_t end_row, std::size_t first, std::size_t last) {
        const std::size_t base = c_.rows_.begins[bucket];
        for (; row < end_row; row += block_rows) {
            stop_.check();
            rows_begin_ = base + row;
            rows_ = std::min(block_rows, end_row - row);
            const bool tiled =
                kernels_.spread && rows_ >= least_tile(kernels_) && c_.radius_ <= kernels::tile_max_limit;
            if (tiled) kernels_.spread(row_code(0), rows_, bytes_, planes_.data());
            each_near(bucket, first, last, [&](std::uint32_t mask, std::size_t from, std::size_t to, std::size_t slot) {
                // A code is compared with the ones before it in its own bucket.
                const bool own = c_.self_ && mask == 0;
                const std::size_t begin = own ? std::max(from, rows_begin_ + 1) : from;
                if (begin < to) tiled ? by_tiles(begin, to, slot + begin - from, own) : one_by_one(begin, to, own);
            });
        }
    }

    std::uint8_t* table(std::size_t slot) { return tables_.data() + slot * table_size_; }
    const std::uint8_t* row_code(std::size_t row) const { return c_.rows_.codes.data() + (rows_begin_ + row) * bytes_; }
    const std::uint8_t* query_code(std::size_t at) const { return c_.queries().codes.data() + at * bytes_; }
    // The rows of the block that a query is compared with.
    std::size_t rows_before(std::size_t query, bool own) const {
        return own ? std::min(rows_, query - rows_begin_) : rows_;
    }

    // Wide codes take long to compare: the join must also end within a task.
    void check_after(std::size_t pairs) {
        compared_ += pairs * bytes_;
        if (compared_ < bytes_per_check) return;
        compared_ = 0;
        stop_.check();
    }

    void one_by_one(std::size_t query, std::size_t end, bool own) {
        Hit* const hits = reinterpret_cast<Hit*>(hits_.data());
        for (; query < end; ++query) {
            const std::size_t rows = rows_before(query, own);
            check_after(rows);
            const std::size_t count = c_.head_bytes_ ? scan_heads(rows, query_code(query), hits)
                                                     : kernels_.scan(row_code(0), rows, bytes_, query_code(query),
                                                                     static_cast<std::uint32_t>(c_.radius_), hits);
            if (blind_)
                sink_.add(count);
            else
                for (std::size_t i = 0; i < count; ++i) take(hits[i], query);
        }
    }

    // As kernels_.scan. A code whose first bytes are beyond the radius is not read.
    std::size_t scan_heads(std::size_t rows, const std::uint8_t* query, Hit* hits) {
        const std::uint8_t* const heads = c_.heads_.data() + rows_begin_ * c_.head_bytes_;
        const auto radius = static_cast<std::uint32_t>(c_.radius_);
        const std::size_t through = kernels_.scan(heads, rows, c_.head_bytes_, query, radius, hits);
        std::size_t count = 0;
        for (std::size_t i = 0; i < through; ++i) {
            std::uint16_t distance;
            kernels_.distances(row_code(hits[i].row), 1, bytes_, query, &distance);
            if (distance <= radius) hits[count++] = {hits[i].row, distance};
        }
        return count;
    }

    // slot: that of the first query, if the tables are prepared.
    void by_tiles(std::size_t query, std::size_t end, std::size_t slot, bool own) {
        for (; query < end; query += tile_queries, slot += tile_queries) {
            const std::size_t used = std::min(tile_queries, end - query);
            check_after(tile_queries * rows_before(query + used - 1, own));
            const bool count_only = blind_ && rows_before(query, own) == rows_;
            kernels::TileQuery tile[tile_queries];
            for (std::size_t i = 0; i < tile_queries; ++i) {
                const std::size_t of = std::min(i, used - 1);  // a short tile repeats its last query, unheard
                std::uint8_t* const made = table(prepared_ ? slot + of : i);
                if (!prepared_) kernels_.prepare(query_code(query + of), bytes_, made);
                tile[i] = {query_code(query + of), made, i < used ? c_.radius_ : -1,
                           count_only ? nullptr : reinterpret_cast<Hit*>(hits_.data()) + i * block_rows, 0};
            }
            kernels_.scan_tile(row_code(0), planes_.data(), rows_before(query + used - 1, own), bytes_, tile);
            for (std::size_t i = 0; i < used; ++i) {
                if (count_only) {
                    sink_.add(tile[i].count);
                    continue;
                }
                for (std::size_t hit = 0; hit < tile[i].count; ++hit)
                    if (tile[i].hits[hit].row < rows_before(query + i, own)) take(tile[i].hits[hit], query + i);
            }
        }
    }

    void take(Hit hit, std::size_t query) {
        if (c_.part_ && c_.found_before(row_code(hit.row), query_code(query))) return;
        std::uint32_t first = c_.rows_.numbers[rows_begin_ + hit.row], second = c_.queries().numbers[query];
        if (c_.self_ && first > second) std::swap(first, second);
        sink_.take({first, second, hit.distance});
    }

    const Comparison& c_;
    const kernels::Kernels& kernels_;
    const std::size_t bytes_;
    const bool blind_;  // a hit is a pair, and the sink only counts
    Sink& sink_;
    Stop& stop_;
    const std::size_t table_size_;
    AlignedBytes planes_, tables_, hits_;
    bool prepared_ = false;
    std::size_t rows_begin_ = 0, rows_ = 0, compared_ = 0;
};

template <class Sink>
void Comparison::run_into(const CompareTask& task, Sink& sink, Stop& stop) const {
    Runner<Sink> runner(*this, task.end_row ? task_queries : tile_queries, sink, stop);
    if (task.end_row) return runner.compare(task);
    for (std::size_t bucket = task.bucket; bucket < task.end_bucket; ++bucket) runner.compare(bucket);
}

void Comparison::run(const CompareTask& task, std::vector<CodePair>& found, Stop& stop) const {
    Collector sink{found};
    run_into(task, sink, stop);
}

std::uint64_t Comparison::count(const CompareTask& task, const Repeats& repeats, Stop& stop) const {
    Counter sink{repeats};
    run_into(task, sink, stop);
    return sink.sum;
}

PairFinder::PairFinder(const Codes& a, const Codes& b, bool self, unsigned radius, unsigned threads, Stop& stop)
    : self_(self),
      swapped_(a.size < b.size),
      more_(swapped_ ? b : a),
      fewer_(swapped_ ? a : b),
      radius_(radius),
      threads_(threads),
      stop_(stop) {
    if (fewer_.size) plan_ = plan_join(more_, fewer_, self, radius);
}

std::vector<CompareTask> PairFinder::next_tasks() {
    std::vector<CompareTask> tasks;
    for (CompareTask task; tasks.size() < batch_;) {
        if (comparison_ && comparison_->next(task)) {
            tasks.push_back(task);
            continue;
        }
        if (!tasks.empty() || part_ == plan_.parts.size()) break;
        comparison_.reset();  // its memory first
        comparison_ = std::make_unique<Comparison>(plan_, part_++, more_, fewer_, self_, radius_, threads_, stop_);
    }
    return tasks;
}

bool PairFinder::next(std::vector<std::vector<CodePair>>& found) {
    const std::vector<CompareTask> tasks = next_tasks();
    found.resize(tasks.size());  // lists keep their memory, because touching new pages takes longer than filling them
    for (auto& list : found) list.clear();
    if (tasks.empty()) return false;
    pool::run(
        tasks.size(), threads_, [&](std::size_t i) { comparison_->run(tasks[i], found[i], stop_); },
        stop_.while_waiting());
    // Few tasks at a time where they find much: what they have found waits in memory.
    std::size_t pairs = 0;
    for (const auto& list : found) pairs += list.size();
    batch_ = pairs > many_pairs ? threads_ : 8 * threads_;
    if (swapped_)
        for (auto& list : found)
            for (CodePair& pair : list) std::swap(pair.first, pair.second);
    return true;
}

std::uint64_t PairFinder::count(const Repeats& repeats) {
    const Repeats as_planned = swapped_ ? Repeats{repeats.b, repeats.a} : repeats;
    std::uint64_t sum = 0;
    batch_ = 8 * threads_;
    for (;;) {
        const std::vector<CompareTask> tasks = next_tasks();
        if (tasks.empty()) return sum;
        std::vector<std::uint64_t> counts(tasks.size());
        pool::run(
            tasks.size(), threads_, [&](std::size_t i) { counts[i] = comparison_->count(tasks[i], as_planned, stop_); },
            stop_.while_waiting());
        for (const std::uint64_t count : counts) sum += count;
    }
}

}  // namespace idcwh::join_detail
