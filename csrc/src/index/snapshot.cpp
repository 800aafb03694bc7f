// Searches of an index or a file. Its segments are searched one after the other, and their results are merged.
#include <idcwh/index.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "index/excluded.hpp"
#include "index/merge_sorted.hpp"
#include "index/subsearch.hpp"
#include "index/view.hpp"
#include "scan/plan.hpp"
#include "structures/structures.hpp"

namespace idcwh {
namespace {

using detail::FilteredRows;
using detail::FilteredView;
using detail::Segment;
using detail::SubSearch;
using detail::View;

// Returns k results per query from at least one part. search(part, k, distances, ids) writes those of a part.
template <class Search>
void ranked(const std::vector<SubSearch>& parts, std::size_t k, std::int32_t* distances, std::int64_t* ids,
            Search search) {
    const std::size_t nq = parts[0].batch.nq;
    if (parts.size() == 1) {
        search(parts[0], k, distances, ids);
        return parts[0].to_ids(ids, nq * k);
    }
    std::vector<detail::Lists> lists(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        lists[i].length = std::min(k, parts[i].batch.eligible);
        lists[i].distances.resize(nq * lists[i].length);
        lists[i].ids.resize(nq * lists[i].length);
        search(parts[i], lists[i].length, lists[i].distances.data(), lists[i].ids.data());
        parts[i].to_ids(lists[i].ids.data(), nq * lists[i].length);
    }
    detail::merge(lists, nq, k, distances, ids, parts[0].batch.options);
}

// Returns the hits of all parts. search(part) returns those of a part.
template <class Search>
Hits collected(const std::vector<SubSearch>& parts, std::size_t nq, Search search) {
    std::vector<Hits> hits(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        hits[i] = search(parts[i]);
        parts[i].to_ids(hits[i].ids.data(), hits[i].ids.size());
    }
    if (hits.empty()) return {std::vector<std::int64_t>(nq + 1), {}, {}};
    return hits.size() == 1 ? std::move(hits[0]) : detail::merge(hits, parts[0].batch.options);
}

// Returns the sum of the counts of all parts. count(part, out) writes those of a part.
template <class Count>
void counted(const std::vector<SubSearch>& parts, std::size_t size, std::int64_t* counts, Count count) {
    if (parts.empty()) return void(std::fill_n(counts, size, 0));
    count(parts[0], counts);
    std::vector<std::int64_t> more(parts.size() > 1 ? size : 0);
    for (std::size_t p = 1; p < parts.size(); ++p) {
        count(parts[p], more.data());
        for (std::size_t i = 0; i < size; ++i) counts[i] += more[i];
    }
}

// The checked arguments of a search and its eligible rows.
struct Prepared {
    Prepared(const View& view, const std::uint8_t* queries, std::size_t nq, const QueryOptions& options)
        : view(view),
          queries(queries),
          nq(nq),
          options(options),
          filtered(checked(), view.segments(), options.where),
          excluded_(filtered, queries, nq, options) {}

    std::size_t eligible() const { return filtered.eligible; }
    // Returns the number of items to search for, so that k >= 1 remain without the excluded ones.
    std::size_t with_excluded(std::size_t k) const { return std::min(k + excluded_.most(), eligible()); }
    const detail::Excluded& excluded() const { return excluded_; }
    std::vector<SubSearch> parts(Work work, std::size_t wanted) {
        return detail::subsearches(filtered, {work, nq, wanted}, queries, options, view.threads());
    }

private:
    const View& checked() const {
        SearchOptions search;
        search.threads = options.threads;
        check({nullptr, 0, view.bits}, queries, nq, search);
        return view;
    }

    const View& view;
    const std::uint8_t* queries;
    std::size_t nq;
    const QueryOptions& options;
    FilteredView filtered;
    detail::Excluded excluded_;
};

}  // namespace

Snapshot::Snapshot(std::shared_ptr<const View> view) : view_(std::move(view)) {}
Snapshot::Snapshot(Snapshot&&) noexcept = default;
Snapshot& Snapshot::operator=(Snapshot&&) noexcept = default;
Snapshot::~Snapshot() = default;

unsigned Snapshot::bits() const { return view_->bits; }
std::size_t Snapshot::size() const { return view_->live; }
std::size_t Snapshot::eligible(const Where& where) const {
    const std::size_t rows = FilteredView(*view_, view_->id_segments(), where).eligible;
    view_->check();
    return rows;
}

std::size_t Snapshot::topk(const std::uint8_t* queries, std::size_t nq, std::size_t k, std::int32_t* distances,
                           std::int64_t* ids, const QueryOptions& options) const {
    Prepared prepared(*view_, queries, nq, options);
    k = std::min(k, prepared.eligible());
    if (k && nq) {
        check_results(distances, ids, nq, k);
        const std::size_t width = prepared.with_excluded(k);
        std::vector<std::int32_t> more_distances(width > k ? product(nq, width) : 0);
        std::vector<std::int64_t> more_ids(more_distances.size());
        std::int32_t* const found_distances = width > k ? more_distances.data() : distances;
        std::int64_t* const found_ids = width > k ? more_ids.data() : ids;
        ranked(prepared.parts(Work::topk, width), width, found_distances, found_ids,
               [](const SubSearch& part, std::size_t most, std::int32_t* d, std::int64_t* i) {
                   detail::run_topk(*part.searcher, part.batch, most, d, i);
               });
        prepared.excluded().remove(found_distances, found_ids, width, distances, ids, k);
    }
    view_->check();
    return k;
}

std::size_t Snapshot::rank(const std::uint8_t* queries, std::size_t nq, std::int32_t* distances, std::int64_t* ids,
                           const QueryOptions& options) const {
    Prepared prepared(*view_, queries, nq, options);
    const std::size_t rows = prepared.eligible();
    if (rows && nq) {
        check_results(distances, ids, nq, rows);
        ranked(prepared.parts(Work::rank, rows), rows, distances, ids,
               [](const SubSearch& part, std::size_t, std::int32_t* d, std::int64_t* i) {
                   part.searcher->rank(part.batch, d, i);
               });
        prepared.excluded().remove(distances, ids, rows, distances, ids, rows);
    }
    view_->check();
    return rows;
}

Hits Snapshot::topk_ties(const std::uint8_t* queries, std::size_t nq, std::size_t k,
                         const QueryOptions& options) const {
    Prepared prepared(*view_, queries, nq, options);
    k = std::min(k, prepared.eligible());
    const std::size_t wanted = k ? prepared.with_excluded(k) : 0;
    std::vector<SubSearch> parts;
    if (k && nq) parts = prepared.parts(Work::ties, wanted);
    Hits hits = collected(parts, nq, [&](const SubSearch& part) {
        return part.searcher->topk_ties(part.batch, std::min(wanted, part.batch.eligible));
    });
    prepared.excluded().remove(hits);
    if (parts.size() > 1 || prepared.excluded().most()) detail::cut_behind_ties(hits, k);
    view_->check();
    return hits;
}

Hits Snapshot::radius(const std::uint8_t* queries, std::size_t nq, unsigned radius, const QueryOptions& options) const {
    Prepared prepared(*view_, queries, nq, options);
    std::vector<SubSearch> parts;
    if (nq) parts = prepared.parts(Work::radius, radius);
    Hits hits = collected(
        parts, nq, [&](const SubSearch& part) { return detail::run_radius(*part.searcher, part.batch, radius); });
    prepared.excluded().remove(hits);
    view_->check();
    return hits;
}

void Snapshot::count(const std::uint8_t* queries, std::size_t nq, unsigned radius, std::int64_t* counts,
                     const QueryOptions& options) const {
    Prepared prepared(*view_, queries, nq, options);
    check_counts(counts, nq, 1);
    if (nq == 0) return;
    counted(prepared.parts(Work::count, radius), nq, counts, [&](const SubSearch& part, std::int64_t* out) {
        detail::run_count(*part.searcher, part.batch, radius, out);
    });
    prepared.excluded().subtract_within(radius, counts);
    view_->check();
}

void Snapshot::histogram(const std::uint8_t* queries, std::size_t nq, std::int64_t* counts,
                         const QueryOptions& options) const {
    Prepared prepared(*view_, queries, nq, options);
    const std::size_t width = std::size_t{view_->bits} + 1;
    check_counts(counts, nq, width);
    if (nq == 0) return;
    counted(prepared.parts(Work::histogram, 0), nq * width, counts,
            [](const SubSearch& part, std::int64_t* out) { part.searcher->histogram(part.batch, out); });
    prepared.excluded().subtract_at_each(width, counts);
    view_->check();
}

bool Snapshot::contains(std::int64_t id) const {
    const auto segments = view_->id_segments();
    const bool found = std::any_of(segments.begin(), segments.end(),
                                   [id](const Segment& segment) { return segment.row_of(id).has_value(); });
    view_->check();
    return found;
}

void Snapshot::get(const std::int64_t* ids, std::size_t count, std::uint8_t* out) const {
    if (count && (!ids || !out)) throw Error(ErrorCode::invalid_argument, "ids and out must not be null");
    const auto segments = view_->segments();
    for (std::size_t i = 0; i < count; ++i) {
        const bool found = std::any_of(segments.begin(), segments.end(), [&](const Segment& segment) {
            const auto row = segment.row_of(ids[i]);
            if (row) std::memcpy(out + i * segment.bytes(), segment.code(*row), segment.bytes());
            return row.has_value();
        });
        if (found) continue;
        view_->check();
        throw Error(ErrorCode::not_found, "id " + std::to_string(ids[i]) + " is missing; the index contains " +
                                              std::to_string(view_->live) + " codes");
    }
    view_->check();
}

void Snapshot::copy(std::uint8_t* codes, std::int64_t* ids, const Where& where) const {
    const std::size_t bytes = code_bytes(view_->bits);
    std::size_t at = 0;
    const FilteredView filtered(*view_, view_->segments(), where);
    for (const FilteredRows& part : filtered.segments) {
        const auto put = [&](std::size_t row) {
            if (codes) std::memcpy(codes + at * bytes, part.segment->code(row), bytes);
            if (ids) ids[at] = part.segment->id(row);
            ++at;
        };
        if (part.rows.kind == Rows::Kind::list) {
            std::for_each_n(part.rows.list, part.rows.count,
                            [&](std::int64_t row) { put(static_cast<std::size_t>(row)); });
            continue;
        }
        const RowTest selected(part.rows);
        for (std::size_t row = 0; row < part.segment->rows; ++row)
            if (selected(row)) put(row);
    }
    view_->check();
}

std::size_t Snapshot::memory() const { return view_->memory(); }

std::vector<StructureInfo> Snapshot::structures() const {
    std::vector<StructureInfo> list;
    for (const Segment& segment : view_->segments())
        if (segment.structures) list.push_back(segment.structures->info());
    return list;
}

}  // namespace idcwh
