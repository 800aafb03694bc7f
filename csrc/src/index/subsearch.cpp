// See subsearch.hpp.
#include "index/subsearch.hpp"

#include <algorithm>
#include <cstring>

#include "structures/plain_scan.hpp"
#include "structures/structures.hpp"

namespace idcwh::detail {
namespace {

// Copies the codes of some of the queries.
std::vector<std::uint8_t> gather(const Batch& batch, const Unfinished& which) {
    const std::size_t bytes = code_bytes(batch.codes.bits);
    std::vector<std::uint8_t> gathered(which.size() * bytes);
    for (std::size_t i = 0; i < which.size(); ++i)
        std::memcpy(gathered.data() + i * bytes, batch.query(which[i]), bytes);
    return gathered;
}

// Adds the hits of query q of `from` to the last query of `to`.
void append(const Hits& from, std::size_t q, Hits& to) {
    const auto begin = from.limits[q], end = from.limits[q + 1];
    to.distances.insert(to.distances.end(), from.distances.begin() + begin, from.distances.begin() + end);
    to.ids.insert(to.ids.end(), from.ids.begin() + begin, from.ids.begin() + end);
    to.limits.back() = static_cast<std::int64_t>(to.ids.size());
}

// Adds two searches to `list`: the structure for the rows that it covers, and a scan for later rows.
void add_structure(std::vector<SubSearch>& list, FilteredRows& filtered, const Choice& choice, SubSearch front) {
    const Segment& segment = *filtered.segment;
    SubSearch back = front;
    front.searcher = choice.searcher;
    front.batch.codes.size = choice.rows;
    if (segment.structures->by_row) front.batch.options.ids = nullptr;
    if (choice.rows == segment.rows) return list.push_back(front);
    Rows& rows = front.batch.options.rows;
    if (rows.kind == Rows::Kind::list)
        rows.count = static_cast<std::size_t>(
            std::lower_bound(rows.list, rows.list + rows.count, static_cast<std::int64_t>(choice.rows)) - rows.list);
    front.batch.eligible = eligible(front.batch.codes, front.batch.options);
    if (front.batch.eligible) list.push_back(front);

    back.first = choice.rows;
    back.batch.codes = {segment.code(choice.rows), segment.rows - choice.rows, segment.bits};
    back.batch.eligible = filtered.eligible - front.batch.eligible;
    back.batch.options.rows = filtered.behind(choice.rows);
    if (back.batch.options.ids) back.batch.options.ids += choice.rows;
    if (back.batch.eligible) list.push_back(back);
}

}  // namespace

void run_topk(const Searcher& searcher, const Batch& batch, std::size_t k, std::int32_t* distances, std::int64_t* ids) {
    const Unfinished left = searcher.topk(batch, k, distances, ids);
    if (left.empty()) return;
    std::vector<std::int32_t> scanned_distances(left.size() * k);
    std::vector<std::int64_t> scanned_ids(left.size() * k);
    topk(batch.codes, gather(batch, left).data(), left.size(), k, scanned_distances.data(), scanned_ids.data(),
         batch.options);
    for (std::size_t i = 0; i < left.size(); ++i) {
        std::copy_n(scanned_distances.data() + i * k, k, distances + left[i] * k);
        std::copy_n(scanned_ids.data() + i * k, k, ids + left[i] * k);
    }
}

Hits run_radius(const Searcher& searcher, const Batch& batch, unsigned radius) {
    Unfinished left;
    Hits found = searcher.radius(batch, radius, left);
    if (left.empty()) return found;
    const Hits scanned = idcwh::radius(batch.codes, gather(batch, left).data(), left.size(), radius, batch.options);
    Hits hits;
    hits.limits.push_back(0);
    std::size_t next = 0;
    for (std::size_t q = 0; q < batch.nq; ++q) {
        hits.limits.push_back(hits.limits.back());
        const bool was_left = next < left.size() && left[next] == q;
        append(was_left ? scanned : found, was_left ? next++ : q, hits);
    }
    return hits;
}

void run_count(const Searcher& searcher, const Batch& batch, unsigned radius, std::int64_t* counts) {
    const Unfinished left = searcher.count(batch, radius, counts);
    if (left.empty()) return;
    std::vector<std::int64_t> scanned(left.size());
    count(batch.codes, gather(batch, left).data(), left.size(), radius, scanned.data(), batch.options);
    for (std::size_t i = 0; i < left.size(); ++i) counts[left[i]] = scanned[i];
}

std::vector<SubSearch> subsearches(FilteredView& filtered, const SearchRequest& request, const std::uint8_t* queries,
                                   const QueryOptions& options, unsigned threads) {
    std::vector<SubSearch> list;
    list.reserve(filtered.segments.size() + 1);
    for (FilteredRows& rows : filtered.segments) {
        const Segment& segment = *rows.segment;
        const SearchOptions search{segment.order_ids(), rows.rows, options.threads ? options.threads : threads,
                                   options.interrupt};
        const Choice choice = choose(rows, request);
        const SubSearch whole{choice.structure ? &PlainScan::instance() : choice.searcher,
                              {segment.view(), queries, request.nq, search, rows.eligible},
                              &segment};
        if (choice.structure)
            add_structure(list, rows, choice, whole);
        else
            list.push_back(whole);
    }
    return list;
}

}  // namespace idcwh::detail
