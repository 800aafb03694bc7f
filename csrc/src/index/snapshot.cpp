// The reading half of an index. The rows that a structure covers and the rows behind them are searched one after the
// other, each with the engine's own functions, and their results are put together.
#include <idcwh/index.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "index/merge.hpp"
#include "index/selection.hpp"
#include "index/state.hpp"
#include "index/structures.hpp"
#include "plan.hpp"

namespace idcwh {
namespace {

using detail::Contents;
using detail::Request;
using detail::Selection;
using detail::Structures;

// Rows of a snapshot that are searched in one way.
struct Part {
    Codes codes;
    SearchOptions options;
    std::int64_t first;            // the number of its first row
    const Structures* structures;  // null: a scan
    const std::int64_t* row_ids;   // where the part is searched by row number, and the whole by id

    // What was found in this part as the whole counts it: by id, or by the number of the row in the snapshot.
    void to_whole(std::int64_t* found, std::size_t count) const {
        if (row_ids)
            for (std::size_t i = 0; i < count; ++i) found[i] = row_ids[found[i]];
        else if (!options.ids && first)
            for (std::size_t i = 0; i < count; ++i) found[i] += first;
    }
};

std::vector<Part> parts_of(const Contents& contents, Selection& selection, const Request& request,
                           const QueryOptions& options, unsigned threads) {
    SearchOptions all;
    all.ids = contents.order_ids();
    all.rows = selection.rows;
    all.threads = options.threads ? options.threads : threads;
    all.interrupt = options.interrupt;
    const Structures* structures = contents.structures.get();
    if (!structure_pays(contents, request)) return {{contents.view(), all, 0, nullptr, nullptr}};

    const std::size_t covered = structures->covered;
    Part front{{contents.codes->data(), covered, contents.bits}, all, 0, structures, nullptr};
    if (structures->by_row) {
        front.options.ids = nullptr;
        front.row_ids = all.ids;
    }
    if (all.rows.kind == Rows::Kind::list)
        front.options.rows.count = static_cast<std::size_t>(
            std::lower_bound(all.rows.list, all.rows.list + all.rows.count, static_cast<std::int64_t>(covered)) -
            all.rows.list);
    if (covered == contents.rows) return {front};
    Part back{{contents.code(covered), contents.rows - covered, contents.bits},
              all,
              static_cast<std::int64_t>(covered),
              nullptr,
              nullptr};
    back.options.rows = selection.behind(covered, contents.rows);
    if (all.ids) back.options.ids = all.ids + covered;
    return {front, back};
}

void check_queries(const Contents& contents, const std::uint8_t* queries, std::size_t nq, const QueryOptions& options) {
    SearchOptions search;
    search.threads = options.threads;
    check(contents.view(), queries, nq, search);
}

// Ranked lists of the same length a query, from the whole snapshot or from its parts. search(part, distances, ids)
// writes a part's, at most k a query, and returns how many.
template <class Search>
void ranked(const std::vector<Part>& parts, const Contents& contents, std::size_t nq, std::size_t k,
            std::int32_t* distances, std::int64_t* ids, Search search) {
    if (parts.size() == 1) {
        search(parts[0], distances, ids);
        parts[0].to_whole(ids, nq * k);
    } else {
        std::vector<detail::Lists> lists(parts.size());
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const std::size_t most = std::min(k, parts[i].codes.size);
            lists[i].distances.resize(nq * most);
            lists[i].ids.resize(nq * most);
            lists[i].length = search(parts[i], lists[i].distances.data(), lists[i].ids.data());
            parts[i].to_whole(lists[i].ids.data(), nq * lists[i].length);
        }
        detail::merge(lists[0], lists[1], nq, k, distances, ids);
    }
    contents.to_ids(ids, nq * k);
}

template <class Search>
Hits collected(const std::vector<Part>& parts, const Contents& contents, Search search) {
    Hits hits = search(parts[0]);
    parts[0].to_whole(hits.ids.data(), hits.ids.size());
    if (parts.size() > 1) {
        Hits behind = search(parts[1]);
        parts[1].to_whole(behind.ids.data(), behind.ids.size());
        hits = detail::merge(hits, behind);
    }
    contents.to_ids(hits.ids.data(), hits.ids.size());
    return hits;
}

// Counts of all parts together. count(part, out) writes a part's.
template <class Count>
void counted(const std::vector<Part>& parts, std::size_t size, std::int64_t* counts, Count count) {
    count(parts[0], counts);
    if (parts.size() == 1) return;
    std::vector<std::int64_t> more(size);
    count(parts[1], more.data());
    for (std::size_t i = 0; i < size; ++i) counts[i] += more[i];
}

}  // namespace

Snapshot::Snapshot(std::shared_ptr<detail::IndexState> state) : state_(std::move(state)) {
    const auto held = state_->versions.take();
    contents_ = held.value;
    slot_ = held.slot;
}
Snapshot::Snapshot(Snapshot&& other) noexcept
    : state_(std::move(other.state_)), contents_(std::exchange(other.contents_, nullptr)), slot_(other.slot_) {}
Snapshot& Snapshot::operator=(Snapshot&& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(contents_, other.contents_);
    std::swap(slot_, other.slot_);
    return *this;
}
Snapshot::~Snapshot() {
    if (contents_) state_->versions.give_back(slot_);
}

unsigned Snapshot::bits() const { return contents_->bits; }
std::size_t Snapshot::size() const { return contents_->live; }
std::size_t Snapshot::eligible(const Where& where) const { return Selection(*contents_, where).eligible; }

std::size_t Snapshot::topk(const std::uint8_t* queries, std::size_t nq, std::size_t k, std::int32_t* distances,
                           std::int64_t* ids, const QueryOptions& options) const {
    check_queries(*contents_, queries, nq, options);
    Selection selection(*contents_, options.where);
    k = std::min(k, selection.eligible);
    if (k == 0 || nq == 0) return k;
    check_results(distances, ids, nq, k);
    const auto parts =
        parts_of(*contents_, selection, {Work::topk, nq, k, selection.eligible}, options, state_->threads.load());
    ranked(parts, *contents_, nq, k, distances, ids, [&](const Part& part, std::int32_t* d, std::int64_t* i) {
        return part.structures ? part.structures->topk(part.codes, queries, nq, k, d, i, part.options)
                               : idcwh::topk(part.codes, queries, nq, k, d, i, part.options);
    });
    return k;
}

std::size_t Snapshot::rank(const std::uint8_t* queries, std::size_t nq, std::int32_t* distances, std::int64_t* ids,
                           const QueryOptions& options) const {
    check_queries(*contents_, queries, nq, options);
    Selection selection(*contents_, options.where);
    const std::size_t rows = selection.eligible;
    if (rows == 0 || nq == 0) return rows;
    check_results(distances, ids, nq, rows);
    const auto parts = parts_of(*contents_, selection, {Work::rank, nq, rows, rows}, options, state_->threads.load());
    ranked(parts, *contents_, nq, rows, distances, ids, [&](const Part& part, std::int32_t* d, std::int64_t* i) {
        return part.structures ? part.structures->rank(part.codes, queries, nq, d, i, part.options)
                               : idcwh::rank(part.codes, queries, nq, d, i, part.options);
    });
    return rows;
}

Hits Snapshot::topk_ties(const std::uint8_t* queries, std::size_t nq, std::size_t k,
                         const QueryOptions& options) const {
    check_queries(*contents_, queries, nq, options);
    Selection selection(*contents_, options.where);
    k = std::min(k, selection.eligible);
    const auto parts =
        parts_of(*contents_, selection, {Work::ties, nq, k, selection.eligible}, options, state_->threads.load());
    Hits hits = collected(parts, *contents_, [&](const Part& part) {
        return part.structures ? part.structures->topk_ties(part.codes, queries, nq, k, part.options)
                               : idcwh::topk_ties(part.codes, queries, nq, k, part.options);
    });
    if (parts.size() > 1) detail::cut_behind_ties(hits, k);
    return hits;
}

Hits Snapshot::radius(const std::uint8_t* queries, std::size_t nq, unsigned radius, const QueryOptions& options) const {
    check_queries(*contents_, queries, nq, options);
    Selection selection(*contents_, options.where);
    const auto parts = parts_of(*contents_, selection, {Work::radius, nq, radius, selection.eligible}, options,
                                state_->threads.load());
    return collected(parts, *contents_, [&](const Part& part) {
        return part.structures ? part.structures->radius(part.codes, queries, nq, radius, part.options)
                               : idcwh::radius(part.codes, queries, nq, radius, part.options);
    });
}

void Snapshot::count(const std::uint8_t* queries, std::size_t nq, unsigned radius, std::int64_t* counts,
                     const QueryOptions& options) const {
    check_queries(*contents_, queries, nq, options);
    check_counts(counts, nq, 1);
    if (nq == 0) return;
    Selection selection(*contents_, options.where);
    const auto parts =
        parts_of(*contents_, selection, {Work::count, nq, radius, selection.eligible}, options, state_->threads.load());
    counted(parts, nq, counts, [&](const Part& part, std::int64_t* out) {
        part.structures ? part.structures->count(part.codes, queries, nq, radius, out, part.options)
                        : idcwh::count(part.codes, queries, nq, radius, out, part.options);
    });
}

void Snapshot::histogram(const std::uint8_t* queries, std::size_t nq, std::int64_t* counts,
                         const QueryOptions& options) const {
    check_queries(*contents_, queries, nq, options);
    const std::size_t width = std::size_t{contents_->bits} + 1;
    check_counts(counts, nq, width);
    if (nq == 0) return;
    Selection selection(*contents_, options.where);
    const auto parts =
        parts_of(*contents_, selection, {Work::histogram, nq, 0, selection.eligible}, options, state_->threads.load());
    counted(parts, nq * width, counts, [&](const Part& part, std::int64_t* out) {
        part.structures ? part.structures->histogram(part.codes, queries, nq, out, part.options)
                        : idcwh::histogram(part.codes, queries, nq, out, part.options);
    });
}

bool Snapshot::contains(std::int64_t id) const { return contents_->row_of(id).has_value(); }

void Snapshot::get(const std::int64_t* ids, std::size_t count, std::uint8_t* out) const {
    if (count && (!ids || !out)) throw Error(ErrorCode::invalid_argument, "ids and out must not be null");
    const std::size_t bytes = contents_->bytes();
    for (std::size_t i = 0; i < count; ++i) {
        const auto row = contents_->row_of(ids[i]);
        if (!row)
            throw Error(ErrorCode::not_found, "no code has id " + std::to_string(ids[i]) + "; the index holds " +
                                                  std::to_string(contents_->live) + " codes");
        std::memcpy(out + i * bytes, contents_->code(*row), bytes);
    }
}

void Snapshot::copy(std::uint8_t* codes, std::int64_t* ids) const {
    const std::size_t bytes = contents_->bytes();
    std::size_t at = 0;
    for (std::size_t row = 0; row < contents_->rows; ++row) {
        if (!contents_->is_alive(row)) continue;
        if (codes) std::memcpy(codes + at * bytes, contents_->code(row), bytes);
        if (ids) ids[at] = contents_->id(row);
        ++at;
    }
}

std::size_t Snapshot::memory() const { return contents_->memory(); }

std::vector<StructureInfo> Snapshot::structures() const {
    if (!contents_->structures) return {};
    return {contents_->structures->info()};
}

}  // namespace idcwh
