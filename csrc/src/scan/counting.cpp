// histogram() and count(): searches that return numbers of rows, not the rows.
#include <algorithm>
#include <bit>
#include <vector>

#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "scan/plan.hpp"
#include "scan/scan.hpp"

namespace idcwh {
namespace {

// Calls visit(row) for the rows of a block that its filter excludes.
template <class Visit>
void for_each_excluded(const Block& block, Visit visit) {
    for (std::size_t at = 0; at < block.rows; at += 64) {
        std::uint64_t out = ~block.filter[at / 64];
        if (block.rows - at < 64) out &= (std::uint64_t{1} << (block.rows - at)) - 1;
        for (; out; out &= out - 1) visit(at + static_cast<std::size_t>(std::countr_zero(out)));
    }
}

// Computes the distances of a task block by block and calls visit(query, distances, block). check: no distance is above
// codes.bits.
template <class Visit>
void measure(const Codes& codes, const RowSet& rows, const Plan::Task& task, const std::uint8_t* queries, bool check,
             Stop& stop, Visit visit) {
    const auto& kernels = active_kernels();
    const std::size_t bytes = code_bytes(codes.bits), block_size = block_rows(kernels, bytes, false, task.queries);
    // While at most half of the rows are excluded, counting and subtracting them is cheaper than copying the others.
    BlockReader reader(codes, rows, task.begin, task.end, 4, check);
    std::vector<std::uint16_t> distances(block_size);
    for (Block block = reader.next(block_size); block.rows; block = reader.next(block_size))
        for (std::size_t q = 0; q < task.queries; ++q) {
            stop.check();
            kernels.distances(block.codes, block.rows, bytes, queries + (task.first_query + q) * bytes,
                              distances.data());
            visit(q, distances.data(), block);
        }
}

// The counts of one query per distance. Increments of the same count wait for one another. Narrow codes, whose
// distances are often equal, therefore have four sets of counts.
class DistanceCounts {
public:
    explicit DistanceCounts(unsigned bits) : sets_((static_cast<std::size_t>(bits) + 1) * (bits <= widest ? 4 : 1)) {}

    void add(const std::uint16_t* distances, const Block& block, std::int64_t* totals, std::size_t size) {
        std::size_t row = 0;
        if (sets_.size() > size) {
            std::uint32_t *a = sets_.data(), *b = a + size, *c = b + size, *d = c + size;
            for (; row + 4 <= block.rows; row += 4) {
                ++a[distances[row]];
                ++b[distances[row + 1]];
                ++c[distances[row + 2]];
                ++d[distances[row + 3]];
            }
            for (std::size_t i = 0; i < size; ++i) {
                totals[i] += std::int64_t{a[i]} + b[i] + c[i] + d[i];
                a[i] = b[i] = c[i] = d[i] = 0;
            }
        }
        for (; row < block.rows; ++row) ++totals[distances[row]];
        if (block.filter) for_each_excluded(block, [&](std::size_t out) { --totals[distances[out]]; });
    }

private:
    static constexpr unsigned widest = 256;  // bits up to which the four sets fit the first-level cache easily
    std::vector<std::uint32_t> sets_;
};

// A sink for scan() that only counts hits.
struct Counter {
    static constexpr bool only_counts = true;
    std::int32_t radius;
    std::int64_t* total;

    std::int32_t limit() const { return radius; }
    void absorb(const kernels::Hit*, std::size_t count, const Block&) { *total += static_cast<std::int64_t>(count); }
};

// Runs body(task, counts) for every task, with `width` counts per query, and adds up the counts of the chunks.
template <class Body>
void count_in_tasks(const Codes& codes, const RowSet& rows, std::size_t nq, const SearchOptions& options,
                    std::size_t width, std::int64_t* counts, Stop& stop, Body body) {
    active_kernels();  // throws on the calling thread if IDCWH_ISA is invalid
    const Plan plan = idcwh::plan(codes, rows, nq, options);
    std::fill(counts, counts + nq * width, 0);
    std::vector<std::vector<std::int64_t>> found(plan.chunks > 1 ? plan.tasks() : 0);
    pool::run(
        plan.tasks(), plan.threads,
        [&](std::size_t index) {
            const Plan::Task task = plan.task(index);
            if (found.empty()) return body(task, counts + task.first_query * width);
            found[index].resize(task.queries * width);
            body(task, found[index].data());
        },
        stop.while_waiting());
    for (std::size_t index = 0; index < found.size(); ++index) {
        std::int64_t* sum = counts + plan.task(index).first_query * width;
        for (const std::int64_t count : found[index]) *sum++ += count;
    }
}

}  // namespace

void histogram(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int64_t* counts,
               const SearchOptions& options) {
    const RowSet rows = checked_rows(codes, queries, nq, options);
    if (nq == 0) return;
    check_counts(counts, nq, std::size_t{codes.bits} + 1);
    const std::size_t width = static_cast<std::size_t>(codes.bits) + 1;
    Stop stop(options.interrupt);
    count_in_tasks(codes, rows, nq, options, width, counts, stop, [&](const Plan::Task& task, std::int64_t* totals) {
        DistanceCounts sets(codes.bits);
        measure(codes, rows, task, queries, true, stop,
                [&](std::size_t q, const std::uint16_t* distances, const Block& block) {
                    sets.add(distances, block, totals + q * width, width);
                });
    });
}

void count(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius, std::int64_t* counts,
           const SearchOptions& options) {
    const RowSet rows = checked_rows(codes, queries, nq, options);
    if (nq == 0) return;
    check_counts(counts, nq, 1);
    const auto within = static_cast<std::int32_t>(std::min(radius, codes.bits));
    const std::size_t bytes = code_bytes(codes.bits);
    Stop stop(options.interrupt);
    count_in_tasks(codes, rows, nq, options, 1, counts, stop, [&](const Plan::Task& task, std::int64_t* totals) {
        const auto& kernels = active_kernels();
        if (kernels.spread && task.queries >= min_batch(bytes) && within <= kernels::tile_max_limit) {
            std::vector<Counter> counters;
            for (std::size_t q = 0; q < task.queries; ++q) counters.push_back({within, totals + q});
            return scan(kernels, codes, rows, task, queries + task.first_query * bytes, counters.data(), stop);
        }
        measure(codes, rows, task, queries, false, stop,
                [&](std::size_t q, const std::uint16_t* distances, const Block& block) {
                    std::uint32_t hits = 0;
                    for (std::size_t row = 0; row < block.rows; ++row) hits += distances[row] <= within;
                    if (block.filter)
                        for_each_excluded(block, [&](std::size_t out) { hits -= distances[out] <= within; });
                    totals[q] += hits;
                });
    });
}

}  // namespace idcwh
