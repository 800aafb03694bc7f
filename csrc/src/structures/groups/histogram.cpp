// See histogram.hpp.
#include "structures/groups/histogram.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "cpu/kernels/kernels.hpp"
#include "scan/plan.hpp"
#include "structures/groups/filter.hpp"

namespace idcwh {
namespace {

constexpr std::size_t histogram_block = 1024;              // codes measured before they are counted
constexpr std::size_t least_codes = std::size_t{1} << 16;  // per task

// Adds the row counts of the groups [begin, end) to counts[bits + 1].
void add_rows(const GroupFilter& selected, const std::uint8_t* query, std::size_t begin, std::size_t end,
              std::int64_t* counts, Stop& stop) {
    const Codes codes = selected.groups().codes();
    const std::size_t bytes = code_bytes(codes.bits);
    std::uint16_t measured[histogram_block];
    for (; begin < end; begin += histogram_block) {
        stop.check();
        const std::size_t rows = std::min(histogram_block, end - begin);
        active_kernels().distances(codes.data + begin * bytes, rows, bytes, query, measured);
        for (std::size_t i = 0; i < rows; ++i) counts[measured[i]] += selected.rows(static_cast<Group>(begin + i));
    }
}

}  // namespace

void count_distances(const GroupFilter& selected, const Batch& batch, std::int64_t* counts) {
    const Groups& groups = selected.groups();
    const std::size_t nq = batch.nq;
    const SearchOptions& options = batch.options;
    Stop stop(options.interrupt);
    const std::size_t bins = static_cast<std::size_t>(batch.codes.bits) + 1;
    std::fill(counts, counts + nq * bins, 0);
    active_kernels();  // throws for an invalid IDCWH_ISA here, in the caller's thread
    const unsigned threads = options.threads                            ? options.threads
                             : groups.distinct() * nq < 2 * least_codes ? 1
                                                                        : pool::available_threads();
    if (nq >= threads) {
        pool::run(
            nq, threads,
            [&](std::size_t q) { add_rows(selected, batch.query(q), 0, groups.distinct(), counts + q * bins, stop); },
            stop.while_waiting());
        return;
    }
    const std::size_t parts = std::clamp<std::size_t>(groups.distinct() / least_codes, 1, 4 * threads);
    pool::run(
        nq * parts, threads,
        [&](std::size_t task) {
            const std::size_t q = task / parts, part = task % parts;
            std::vector<std::int64_t> task_counts(bins);
            add_rows(selected, batch.query(q), groups.distinct() * part / parts, groups.distinct() * (part + 1) / parts,
                     task_counts.data(), stop);
            for (std::size_t d = 0; d < bins; ++d)
                std::atomic_ref(counts[q * bins + d]).fetch_add(task_counts[d], std::memory_order_relaxed);
        },
        stop.while_waiting());
}

}  // namespace idcwh
