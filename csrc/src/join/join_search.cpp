// See join_search.hpp.
#include "join/join_search.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "base/pool.hpp"
#include "join/compare.hpp"
#include "join/plan.hpp"
#include "scan/counting_merge.hpp"
#include "scan/rows.hpp"
#include "structures/cost.hpp"

namespace idcwh {
namespace {

using join_detail::CodePair;

unsigned threads_of(const Batch& batch) {
    return batch.options.threads ? batch.options.threads : pool::available_threads();
}

// The eligible codes of a batch: those of a range of rows as they are, others copied.
class EligibleCodes {
public:
    explicit EligibleCodes(const Batch& batch) : first_(0), view_(batch.codes) {
        const RowSet set(batch.options.rows, batch.codes.size);
        const std::size_t bytes = code_bytes(batch.codes.bits);
        if (set.kind == RowSet::Kind::range) {
            first_ = set.begin;
            view_ = {batch.codes.data + set.begin * bytes, set.end - set.begin, batch.codes.bits};
            return;
        }
        rows_.reserve(set.count);
        if (set.kind == RowSet::Kind::list)
            rows_.assign(set.list + set.begin, set.list + set.end);
        else
            for (std::size_t row = set.begin; row < set.end; ++row)
                if (set.bitmap[row / 64] >> row % 64 & 1) rows_.push_back(static_cast<std::int64_t>(row));
        codes_.resize(rows_.size() * bytes);
        for (std::size_t i = 0; i < rows_.size(); ++i)
            std::memcpy(codes_.data() + i * bytes, batch.codes.data + static_cast<std::size_t>(rows_[i]) * bytes,
                        bytes);
        view_ = {codes_.data(), rows_.size(), batch.codes.bits};
    }

    const Codes& view() const { return view_; }
    std::int64_t row(std::uint32_t at) const {
        return rows_.empty() ? static_cast<std::int64_t>(first_ + at) : rows_[at];
    }

private:
    std::size_t first_;
    std::vector<std::int64_t> rows_;
    std::vector<std::uint8_t> codes_;
    Codes view_;
};

// Calls take(lists) for the pairs of a code (first) and a query (second), some tasks at a time. Returns false without a
// call if comparing all codes is cheaper.
template <class Take>
bool join_all(const Batch& batch, const Codes& codes, unsigned radius, Stop& stop, Take take) {
    const Codes queries{batch.queries, batch.nq, batch.codes.bits};
    join_detail::PairFinder finder(codes, queries, false, std::min(radius, codes.bits), threads_of(batch), stop);
    if (finder.plan().scans()) return false;
    std::vector<std::vector<CodePair>> found;
    while (finder.next(found)) take(found);
    return true;
}

Unfinished all(const Batch& batch) {
    Unfinished queries(batch.nq);
    std::iota(queries.begin(), queries.end(), std::size_t{0});
    return queries;
}

}  // namespace

const JoinSearch& JoinSearch::instance() {
    static const JoinSearch search;
    return search;
}

double JoinSearch::expected_ns(const Request& request) const {
    const bool works = request.work == Work::radius || request.work == Work::count;
    if (!works || request.nq < cost::batch || std::uint64_t{request.rows} >> 32 || std::uint64_t{request.nq} >> 32)
        return infinite;
    const auto nq = static_cast<double>(request.nq);
    const Codes codes{request.codes, request.rows, request.bits};
    const double pairs = nq * static_cast<double>(request.rows);
    // Plans and scans count in the nanoseconds of different machines.
    const double unit = cost::scan_ns(codes, request.nq) / join_detail::compare_all_ns(pairs, request.bits);
    const auto radius = static_cast<unsigned>(std::min<std::size_t>(request.wanted, request.bits));
    const double scan = cost::scan_ns(codes, request.nq, request.eligible, request.scattered);
    for (const bool without_sample : {true, false}) {
        const join_detail::JoinPlan plan =
            join_detail::plan_join(codes, request.eligible, request.nq, radius, without_sample);
        const double ns = plan.nanoseconds * unit / nq;
        if (plan.scans() || ns >= scan) return infinite;
        if (!without_sample) return ns;
    }
    return infinite;
}

Hits JoinSearch::radius(const Batch& batch, unsigned radius, Unfinished& unfinished) const {
    Hits hits;
    hits.limits.assign(batch.nq + 1, 0);
    Stop stop(batch.options.interrupt);
    const EligibleCodes codes(batch);
    std::vector<std::vector<CodePair>> lists;
    const bool joined = join_all(batch, codes.view(), radius, stop, [&](auto& found) {
        for (auto& list : found) {
            if (list.empty()) continue;
            for (const CodePair& pair : list) ++hits.limits[pair.second + 1];
            list.shrink_to_fit();
            lists.push_back(std::move(list));
        }
    });
    if (!joined) {
        unfinished = all(batch);
        return hits;
    }
    std::partial_sum(hits.limits.begin(), hits.limits.end(), hits.limits.begin());
    make_room(hits);
    std::vector<std::int64_t> next(hits.limits.begin(), hits.limits.end() - 1);
    for (auto& list : lists) {
        stop.check();
        for (const CodePair& pair : list) {
            const auto at = static_cast<std::size_t>(next[pair.second]++);
            const std::int64_t row = codes.row(pair.first);
            hits.ids[at] = batch.options.ids ? batch.options.ids[row] : row;
            hits.distances[at] = pair.distance;
        }
        std::vector<CodePair>().swap(list);
    }
    const unsigned threads = threads_of(batch);
    const std::size_t tasks = std::min<std::size_t>(batch.nq, 8 * threads);
    pool::run(
        tasks, threads,
        [&](std::size_t task) {
            std::vector<std::pair<std::int32_t, std::int64_t>> sorted;
            for (std::size_t q = batch.nq * task / tasks; q < batch.nq * (task + 1) / tasks; ++q) {
                stop.check();
                const auto begin = static_cast<std::size_t>(hits.limits[q]);
                sorted.clear();
                for (std::size_t i = begin; i < static_cast<std::size_t>(hits.limits[q + 1]); ++i)
                    sorted.emplace_back(hits.distances[i], hits.ids[i]);
                std::sort(sorted.begin(), sorted.end());
                for (std::size_t i = 0; i < sorted.size(); ++i)
                    std::tie(hits.distances[begin + i], hits.ids[begin + i]) = sorted[i];
            }
        },
        stop.while_waiting());
    return hits;
}

Unfinished JoinSearch::count(const Batch& batch, unsigned radius, std::int64_t* counts) const {
    std::fill_n(counts, batch.nq, 0);
    Stop stop(batch.options.interrupt);
    const EligibleCodes codes(batch);
    const bool joined = join_all(batch, codes.view(), radius, stop, [&](const auto& found) {
        for (const auto& list : found)
            for (const CodePair& pair : list) ++counts[pair.second];
    });
    return joined ? Unfinished{} : all(batch);
}

}  // namespace idcwh
