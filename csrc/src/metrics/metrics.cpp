// count_pairs() and count_distinct(). Equal queries are counted once. Tiles of queries with one label are distributed
// to threads.
#include <idcwh/metrics.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <string>

#include "base/fail.hpp"
#include "base/interrupt.hpp"
#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "metrics/distinct.hpp"
#include "metrics/labels.hpp"
#include "metrics/pass.hpp"
#include "scan/plan.hpp"

namespace idcwh {
namespace {

// Below this number of pairs, one thread is used. Chosen by the time to start a thread; benchmarks/evaluate.py measures
// the whole pass.
constexpr std::size_t least_pairs = 1 << 19;

void check_side(const char* name, const LabelledCodes& side) {
    const std::string label(name);
    if (side.codes.size > 0xffffffffu)
        throw Error(
            ErrorCode::unsupported,
            {.path = label + ".codes.size", .found = std::to_string(side.codes.size), .expected = "less than 2^32"});
    if (!side.labels.classes && !side.labels.sets && side.codes.size && side.labels.set_classes)
        fail({.path = label + ".labels", .found = "null", .expected = "classes or sets"});
    check_padding(side.codes, (label + ".codes").c_str());
    const std::size_t classes = side.labels.set_classes, bytes = (classes + 7) / 8;
    if (!side.labels.sets || classes % 8 == 0) return;
    for (std::size_t row = 0; row < side.codes.size; ++row)
        if (side.labels.sets[row * bytes + bytes - 1] >> classes % 8)
            fail({.path = label + ".labels.sets",
                  .found = "a bit behind class " + std::to_string(classes - 1) + " in row " + std::to_string(row)});
}

void check(const LabelledCodes& queries, const LabelledCodes& database, const PairOptions& options) {
    SearchOptions search;
    search.threads = options.threads;
    check(database.codes, queries.codes.data, queries.codes.size, search);
    if (queries.codes.bits != database.codes.bits)
        fail({.path = "queries.codes.bits",
              .problem = "does not match database.codes.bits",
              .found = std::to_string(queries.codes.bits),
              .expected = std::to_string(database.codes.bits)});
    check_side("queries", queries);
    check_side("database", database);
    const bool both = queries.codes.size && database.codes.size;  // labels of an empty side have no form
    if (both && ((queries.labels.classes != nullptr) != (database.labels.classes != nullptr) ||
                 queries.labels.set_classes != database.labels.set_classes))
        fail({.path = "queries.labels",
              .problem = "does not match database.labels",
              .expected = "classes in both, or sets with the same number of classes"});
    if (options.leave_one_out &&
        (queries.codes.data != database.codes.data || queries.codes.size != database.codes.size ||
         queries.labels.classes != database.labels.classes || queries.labels.sets != database.labels.sets))
        fail({.path = "queries",
              .problem = "does not match database",
              .expected = "the memory of the database, because of leave_one_out"});
    for (std::size_t i = 0; i < options.cut_count; ++i)
        if (options.cuts[i] < (i ? options.cuts[i - 1] : 1))
            fail({.path = "cuts[" + std::to_string(i) + "]",
                  .found = std::to_string(options.cuts[i]),
                  .expected = "ascending cuts of at least 1"});
}

// Numbers the distinct pairs of code and label of the queries in result.row. Returns the first query of each pair.
std::vector<std::uint32_t> distinct_queries(const LabelledCodes& queries, const metrics::Relevance& relevance,
                                            PairCounts& result) {
    const std::size_t bytes = code_bytes(queries.codes.bits), nq = queries.codes.size;
    const std::size_t width = bytes + sizeof(std::uint32_t);
    std::vector<std::uint8_t> keys(nq * width);
    for (std::size_t q = 0; q < nq; ++q) {
        const std::uint32_t label = relevance.label(q);
        std::memcpy(keys.data() + q * width, queries.codes.data + q * bytes, bytes);
        std::memcpy(keys.data() + q * width + bytes, &label, sizeof label);
    }
    metrics::Distinct distinct = metrics::distinct_rows(keys.data(), nq, width);
    result.row.assign(distinct.number.begin(), distinct.number.end());
    return std::move(distinct.first);
}

std::vector<metrics::Tile> tiles(const LabelledCodes& queries, const metrics::Relevance& relevance,
                                 const std::vector<std::uint32_t>& distinct) {
    std::vector<std::uint32_t> order(distinct.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return relevance.label(distinct[a]) < relevance.label(distinct[b]);
    });
    std::vector<metrics::Tile> list;
    for (const auto row : order) {
        const auto query = distinct[row], label = relevance.label(query);
        if (list.empty() || list.back().label != label || list.back().size == metrics::tile_queries)
            list.push_back({label, 0, {}, {}});
        metrics::Tile& tile = list.back();
        tile.query[tile.size] = queries.codes.data + query * code_bytes(queries.codes.bits);
        tile.row[tile.size++] = row;
    }
    return list;
}

}  // namespace

PairCounts count_pairs(const LabelledCodes& queries, const LabelledCodes& database, const PairOptions& options) {
    check(queries, database, options);
    active_kernels();  // throws on the calling thread if IDCWH_ISA is invalid
    PairCounts result;
    result.distances = static_cast<std::size_t>(queries.codes.bits) + 1;
    result.cuts = options.cut_count;
    if (!queries.codes.size) return result;

    const metrics::Relevance relevance(queries, database);
    const metrics::Database items(database.codes, options.ranked);
    const auto distinct = distinct_queries(queries, relevance, result);
    const auto work = tiles(queries, relevance, distinct);
    result.items.resize(product(distinct.size(), result.distances));
    result.relevant.resize(result.items.size());
    if (options.ranked) {
        const std::size_t rows = options.leave_one_out ? queries.codes.size : distinct.size();
        result.ranked_sum.resize(product(rows, result.cuts + 1));
        result.ranked_hits.resize(rows * result.cuts);
    }

    const bool small = distinct.size() < least_pairs / std::max<std::size_t>(database.codes.size, 1);
    const unsigned threads = options.threads ? options.threads : small ? 1 : pool::available_threads();
    Stop stop(options.interrupt);
    std::atomic<std::size_t> next{0};
    // One Pass per thread, so that its memory is allocated once.
    const auto body = [&](std::size_t) {
        metrics::Pass pass(items, relevance, options, result, stop);
        for (std::size_t tile; (tile = next.fetch_add(1)) < work.size();) pass.count(work[tile]);
    };
    pool::run(std::min<std::size_t>(threads, work.size()), threads, body, stop.while_waiting());
    return result;
}

std::size_t count_distinct(const Codes& codes) {
    check(codes, nullptr, 0, {});
    if (codes.size > 0xffffffffu)
        throw Error(ErrorCode::unsupported,
                    {.path = "codes.size", .found = std::to_string(codes.size), .expected = "less than 2^32"});
    return metrics::distinct_rows(codes.data, codes.size, code_bytes(codes.bits)).size();
}

}  // namespace idcwh
