// See plan.hpp.
#include "scan/plan.hpp"

#include <algorithm>
#include <new>
#include <string>

#include "base/fail.hpp"
#include "base/pool.hpp"

namespace idcwh {
namespace {

// benchmarks/search.py with several --queries and --threads shows the effect of these constants.
constexpr std::size_t max_group = 256;          // queries whose tables fit the second-level cache together
constexpr std::size_t queries_per_thread = 64;  // from here on, each thread searches all rows for some of the queries
constexpr std::size_t least_work = 1 << 20;     // bytes compared; below, starting a second thread takes longer
constexpr std::size_t least_chunk = 256 << 10;  // bytes of codes; below, the overhead per chunk is noticeable

}  // namespace

void check_bits(unsigned bits) {
    if (bits < 1 || bits > max_bits)
        fail({.path = "bits", .found = std::to_string(bits), .expected = "1 to " + std::to_string(max_bits)});
}

void check(const Codes& codes, const std::uint8_t* queries, std::size_t nq, const SearchOptions& options) {
    check_bits(codes.bits);
    if (codes.size && !codes.data)
        fail({.path = "codes.data", .found = "null", .expected = std::to_string(codes.size) + " codes"});
    if (codes.size > static_cast<std::size_t>(-1) / 2 / code_bytes(codes.bits))
        fail({.path = "codes.size",
              .found = std::to_string(codes.size),
              .expected = "a size that fits the address space"});
    if (nq && !queries) fail({.path = "queries", .found = "null", .expected = std::to_string(nq) + " queries"});
    if (nq > static_cast<std::size_t>(-1) / 2 / code_bytes(codes.bits))
        fail({.path = "nq", .found = std::to_string(nq), .expected = "queries that fit the address space"});
    check_padding({queries, nq, codes.bits}, "queries");
    if (options.threads > max_threads)
        fail({.path = "threads",
              .found = std::to_string(options.threads),
              .expected = "0 to " + std::to_string(max_threads)});
}

RowSet checked_rows(const Codes& codes, const std::uint8_t* queries, std::size_t nq, const SearchOptions& options) {
    check(codes, queries, nq, options);
    return RowSet(options.rows, codes.size);
}

namespace {

void check_output(bool null, const char* name, std::size_t nq, std::size_t columns) {
    if (!nq || !columns) return;
    if (null) fail({.path = name, .found = "null", .expected = "memory for the results"});
    if (nq > static_cast<std::size_t>(-1) / 2 / sizeof(std::int64_t) / columns)
        fail({.path = "nq",
              .found = std::to_string(nq),
              .expected = "queries whose " + std::to_string(columns) + " results each fit the address space"});
}

}  // namespace

void check_results(const std::int32_t* distances, const std::int64_t* ids, std::size_t nq, std::size_t columns) {
    check_output(!distances || !ids, "distances and ids", nq, columns);
}

void check_counts(const std::int64_t* counts, std::size_t nq, std::size_t columns) {
    check_output(!counts, "counts", nq, columns);
}

std::size_t product(std::size_t rows, std::size_t columns) {
    if (columns && rows > static_cast<std::size_t>(-1) / columns) throw std::bad_alloc();
    return rows * columns;
}

Plan::Task Plan::task(std::size_t index) const {
    const std::size_t group = index / chunks, chunk = index % chunks;
    const std::size_t first = group * group_queries, at = begin + chunk * chunk_rows;
    return {group, chunk, first, std::min(group_queries, nq - first), at, std::min(end, at + chunk_rows)};
}

Plan plan(const Codes& codes, const RowSet& rows, std::size_t nq, const SearchOptions& options) {
    const std::size_t size = rows.count * code_bytes(codes.bits), positions = rows.positions();
    const bool worthwhile = size >= least_work || (size && nq >= (least_work + size - 1) / size);
    Plan plan{};
    plan.nq = nq;
    plan.begin = rows.begin;
    plan.end = rows.end;
    plan.chunks = 1;
    plan.threads = options.threads ? options.threads : worthwhile ? pool::available_threads() : 1;
    if (plan.threads == 1 || nq >= queries_per_thread * plan.threads) {
        // More groups than threads, for the reason below. A group of 64 still amortises the conversion of a block.
        const std::size_t tasks = plan.threads == 1 ? 1 : std::size_t{4} * plan.threads;
        plan.group_queries = std::clamp((nq + tasks - 1) / tasks, queries_per_thread, max_group);
    } else {
        plan.group_queries = std::clamp<std::size_t>(nq, 1, max_group);
        // More chunks than threads, so that the others take over the share of a thread that other work delays.
        const std::size_t most = options.threads ? positions / 64 : size / least_chunk;
        plan.chunks = std::clamp<std::size_t>(4 * plan.threads, 1, std::max<std::size_t>(most, 1));
    }
    plan.groups = (nq + plan.group_queries - 1) / plan.group_queries;
    plan.chunk_rows = std::max<std::size_t>(64, (positions + plan.chunks - 1) / plan.chunks);
    plan.chunk_rows = (plan.chunk_rows + 63) / 64 * 64;
    plan.chunks = std::max<std::size_t>(1, (positions + plan.chunk_rows - 1) / plan.chunk_rows);
    return plan;
}

}  // namespace idcwh
