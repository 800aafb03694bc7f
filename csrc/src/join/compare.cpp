// See compare.hpp.
#include "join/compare.hpp"

#include <algorithm>

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
// Rows of a bucket from which spreading them to planes pays (benchmarks/join.py).
constexpr std::size_t least_tile = 24;
constexpr std::size_t bytes_per_check = std::size_t{1} << 20;  // compared; some ten microseconds

}  // namespace

Comparison::Comparison(const JoinPlan& plan, std::size_t part, const Distinct& a, const Distinct& b, unsigned radius,
                       unsigned threads, Stop& stop)
    : plan_(plan), part_(part), a_(a), b_(b), radius_(static_cast<std::int32_t>(radius)) {
    const Part& by = plan.parts[part];
    rows_ = sort_by(by, a, threads, stop);
    if (!self()) queries_ = sort_by(by, b, threads, stop);
    std::uint32_t masks[64];
    for (unsigned distance = 0; distance <= by.threshold; ++distance) {
        multi::Shell shell(0, by.width, distance);
        while (const std::size_t count = shell.next(masks, 64)) masks_.insert(masks_.end(), masks, masks + count);
    }
}

// Returns the number of codes that a bucket is compared with. In a self-join, earlier buckets do not count.
std::size_t Comparison::near_codes(std::size_t bucket) const {
    const auto& begins = queries().begins;
    std::size_t sum = 0;
    for (const std::uint32_t mask : masks_) {
        const std::size_t near = bucket ^ mask;
        if (!self() || near >= bucket) sum += begins[near + 1] - begins[near];
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
        // Cut into blocks of rows and ranges of queries.
        constexpr std::size_t portion = task_pairs / block_rows;
        task = {
            bucket_, bucket_ + 1, row_, std::min(rows, row_ + block_rows), query_, std::min(near, query_ + portion)};
        query_ += portion;
        if (query_ < near) return true;
        row_ += block_rows;
        // The bucket itself comes first. Its codes before the rows have been compared with them.
        query_ = self() ? row_ / portion * portion : 0;
        if (row_ >= rows) ++bucket_, row_ = query_ = 0;
        return true;
    }
    task = {begin, bucket_, 0, 0, 0, 0};
    return pairs > 0;
}

// Returns whether an earlier part has found the pair.
bool Comparison::found_before(const std::uint8_t* a, const std::uint8_t* b) const {
    for (std::size_t p = 0; p < part_; ++p) {
        const Part& part = plan_.parts[p];
        const multi::Field field(a_.bits, part.offset, part.width);
        if (multi::ones(field.of_code(a) ^ field.of_code(b)) <= part.threshold) return true;
    }
    return false;
}

// The memory of a thread: a block of rows, and the queries that it is compared with.
class Comparison::Runner {
public:
    Runner(const Comparison& comparison, std::vector<CodePair>& found, Stop& stop)
        : c_(comparison),
          kernels_(active_kernels()),
          bytes_(comparison.a_.bytes()),
          found_(found),
          stop_(stop),
          planes_(kernels_.spread ? kernels_.planes_size(block_rows, bytes_) : 0),
          tables_(kernels_.spread ? tile_queries * kernels_.table_size(bytes_) : 0),
          hits_(tile_queries * block_rows * sizeof(Hit)) {}

    // Rows [row, end_row) of a bucket against the queries [first, last) of those near it.
    void compare(std::size_t bucket, std::size_t row, std::size_t end_row, std::size_t first, std::size_t last) {
        const auto& begins = c_.queries().begins;
        const std::size_t base = c_.rows_.begins[bucket];
        for (; row < end_row; row += block_rows) {
            stop_.check();
            rows_begin_ = base + row;
            rows_ = std::min(block_rows, end_row - row);
            const bool tiled = kernels_.spread && rows_ >= least_tile && c_.radius_ <= kernels::tile_max_limit;
            if (tiled) kernels_.spread(row_code(0), rows_, bytes_, planes_.data());
            std::size_t at = 0;  // queries so far
            for (const std::uint32_t mask : c_.masks_) {
                const std::size_t near = bucket ^ mask;
                if (c_.self() && near < bucket) continue;
                const std::size_t count = begins[near + 1] - begins[near];
                std::size_t from = begins[near] + (first > at ? std::min(first - at, count) : 0);
                const std::size_t to = begins[near] + std::min(count, last > at ? last - at : 0);
                at += count;
                // A code is compared with the ones before it in its own bucket.
                const bool own = c_.self() && mask == 0;
                if (own) from = std::max(from, rows_begin_ + 1);
                if (from >= to) continue;
                tiled ? by_tiles(from, to, own) : one_by_one(from, to, own);
            }
        }
    }

private:
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
            check_after(rows_before(query, own));
            const std::size_t count = kernels_.scan(row_code(0), rows_before(query, own), bytes_, query_code(query),
                                                    static_cast<std::uint32_t>(c_.radius_), hits);
            for (std::size_t i = 0; i < count; ++i) take(hits[i], query);
        }
    }

    void by_tiles(std::size_t query, std::size_t end, bool own) {
        for (; query < end; query += tile_queries) {
            const std::size_t used = std::min(tile_queries, end - query);
            check_after(tile_queries * rows_before(query + used - 1, own));
            kernels::TileQuery tile[tile_queries];
            for (std::size_t i = 0; i < tile_queries; ++i) {
                const std::size_t at = query + std::min(i, used - 1);  // a short tile repeats its last query, unheard
                std::uint8_t* const table = tables_.data() + i * kernels_.table_size(bytes_);
                kernels_.prepare(query_code(at), bytes_, table);
                tile[i] = {query_code(at), table, i < used ? c_.radius_ : -1,
                           reinterpret_cast<Hit*>(hits_.data()) + i * block_rows, 0};
            }
            kernels_.scan_tile(row_code(0), planes_.data(), rows_before(query + used - 1, own), bytes_, tile);
            for (std::size_t i = 0; i < used; ++i)
                for (std::size_t hit = 0; hit < tile[i].count; ++hit)
                    if (tile[i].hits[hit].row < rows_before(query + i, own)) take(tile[i].hits[hit], query + i);
        }
    }

    void take(Hit hit, std::size_t query) {
        if (c_.part_ && c_.found_before(row_code(hit.row), query_code(query))) return;
        std::uint32_t first = c_.rows_.numbers[rows_begin_ + hit.row], second = c_.queries().numbers[query];
        if (c_.self() && first > second) std::swap(first, second);
        found_.push_back({first, second, hit.distance});
    }

    const Comparison& c_;
    const kernels::Kernels& kernels_;
    const std::size_t bytes_;
    std::vector<CodePair>& found_;
    Stop& stop_;
    AlignedBytes planes_, tables_, hits_;
    std::size_t rows_begin_ = 0, rows_ = 0, compared_ = 0;
};

void Comparison::run(const CompareTask& task, std::vector<CodePair>& found, Stop& stop) const {
    Runner runner(*this, found, stop);
    constexpr std::size_t all = static_cast<std::size_t>(-1);
    if (task.end_row) return runner.compare(task.bucket, task.row, task.end_row, task.query, task.end_query);
    for (std::size_t bucket = task.bucket; bucket < task.end_bucket; ++bucket)
        runner.compare(bucket, 0, rows_.begins[bucket + 1] - rows_.begins[bucket], 0, all);
}

}  // namespace idcwh::join_detail
