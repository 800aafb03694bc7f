// See excluded.hpp.
#include "index/excluded.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/fail.hpp"
#include "cpu/dispatch.hpp"
#include "scan/rows.hpp"

namespace idcwh::detail {

Excluded::Excluded(const FilteredView& filtered, const std::uint8_t* queries, std::size_t nq,
                   const QueryOptions& options) {
    const std::size_t count = options.exclude_count;
    if (!count || !nq) return;
    if (!options.exclude)
        fail({.path = "exclude", .found = "null", .expected = std::to_string(count) + " ids per query"});
    const std::size_t bytes = code_bytes(filtered.bits);
    const auto& kernels = active_kernels();
    begin_.push_back(0);
    for (std::size_t q = 0; q < nq; ++q) {
        for (std::size_t i = 0; i < count; ++i) {
            const std::int64_t id = options.exclude[q * count + i];
            if (id < 0) continue;
            for (const FilteredRows& rows : filtered.segments) {
                const auto row = rows.segment->row_of(id);
                if (!row || !RowTest(rows.rows)(*row)) continue;
                std::uint16_t distance;
                kernels.distances(rows.segment->code(*row), 1, bytes, queries + q * bytes, &distance);
                items_.push_back({id, distance});
                break;
            }
        }
        const auto first = items_.begin() + static_cast<std::ptrdiff_t>(begin_.back());
        std::sort(first, items_.end());
        items_.erase(
            std::unique(first, items_.end(), [](const Item& one, const Item& other) { return one.id == other.id; }),
            items_.end());
        most_ = std::max(most_, items_.size() - begin_.back());
        begin_.push_back(items_.size());
    }
}

bool Excluded::contains(std::size_t query, std::int64_t id) const {
    const auto first = items_.begin() + static_cast<std::ptrdiff_t>(begin_[query]);
    const auto last = items_.begin() + static_cast<std::ptrdiff_t>(begin_[query + 1]);
    return std::binary_search(first, last, Item{id, 0});
}

void Excluded::remove(const std::int32_t* distances, const std::int64_t* ids, std::size_t width,
                      std::int32_t* out_distances, std::int64_t* out_ids, std::size_t k) const {
    if (!most_) return;
    for (std::size_t q = 0; q + 1 < begin_.size(); ++q) {
        std::size_t kept = 0;
        for (std::size_t i = q * width; i < (q + 1) * width && kept < k; ++i) {
            if (contains(q, ids[i])) continue;
            out_distances[q * k + kept] = distances[i];
            out_ids[q * k + kept++] = ids[i];
        }
        std::fill(out_distances + q * k + kept, out_distances + (q + 1) * k, std::numeric_limits<std::int32_t>::max());
        std::fill(out_ids + q * k + kept, out_ids + (q + 1) * k, std::int64_t{-1});
    }
}

void Excluded::remove(Hits& hits) const {
    if (!most_) return;
    std::int64_t begin = 0;
    std::size_t kept = 0;
    for (std::size_t q = 0; q + 1 < hits.limits.size(); ++q) {
        const std::int64_t end = hits.limits[q + 1];
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
            if (contains(q, hits.ids[i])) continue;
            hits.distances[kept] = hits.distances[i];
            hits.ids[kept++] = hits.ids[i];
        }
        begin = end;
        hits.limits[q + 1] = static_cast<std::int64_t>(kept);
    }
    hits.distances.resize(kept);
    hits.ids.resize(kept);
}

void Excluded::subtract_within(unsigned radius, std::int64_t* counts) const {
    for (std::size_t q = 0; q + 1 < begin_.size(); ++q)
        for (std::size_t i = begin_[q]; i < begin_[q + 1]; ++i) counts[q] -= items_[i].distance <= radius;
}

void Excluded::subtract_at_each(std::size_t width, std::int64_t* counts) const {
    for (std::size_t q = 0; q + 1 < begin_.size(); ++q)
        for (std::size_t i = begin_[q]; i < begin_[q + 1]; ++i) --counts[q * width + items_[i].distance];
}

}  // namespace idcwh::detail
