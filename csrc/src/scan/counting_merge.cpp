// See counting_merge.hpp.
#include "scan/counting_merge.hpp"

#include <algorithm>
#include <new>

#include "base/pool.hpp"

namespace idcwh {
namespace {

// Returns begins[d], the number of entries at a distance below d.
std::vector<std::size_t> beginnings(const Parts& parts, unsigned bits) {
    std::vector<std::size_t> begins(static_cast<std::size_t>(bits) + 2);
    for (const auto* part : parts)
        for (const Entry& entry : *part) ++begins[static_cast<std::size_t>(entry.distance) + 1];
    for (std::size_t d = 1; d < begins.size(); ++d) begins[d] += begins[d - 1];
    return begins;
}

}  // namespace

void sort_entries(const Parts& parts, unsigned bits, bool in_id_order, std::size_t take, std::int32_t* distances,
                  std::int64_t* ids) {
    const std::vector<std::size_t> begins = beginnings(parts, bits);
    take = std::min(take, begins.back());

    // Unordered ids are sorted within each distance. The last distance must be sorted as a whole before it is cut.
    std::size_t last = 0;  // one past the last distance with a taken entry
    while (last <= bits && begins[last] < take) ++last;
    std::vector<std::int64_t> sorted;
    std::int64_t* out = ids;
    if (!in_id_order && begins[last] > take) {
        sorted.resize(begins[last]);
        out = sorted.data();
    }
    std::vector<std::size_t> next(begins.begin(), begins.end());
    const std::size_t capacity = out == ids ? take : sorted.size();
    for (const auto* part : parts)
        for (const Entry& entry : *part) {
            const std::size_t at = next[static_cast<std::size_t>(entry.distance)]++;
            if (at < capacity) out[at] = entry.id;
        }
    for (std::size_t d = 0; d < last; ++d) {
        if (!in_id_order) std::sort(out + begins[d], out + begins[d + 1]);
        for (std::size_t at = begins[d]; at < std::min(begins[d + 1], take); ++at)
            distances[at] = static_cast<std::int32_t>(d);
    }
    if (out != ids) std::copy(out, out + take, ids);
}

std::size_t count_with_ties(const Parts& parts, unsigned bits, std::size_t k) {
    const std::vector<std::size_t> begins = beginnings(parts, bits);
    return *std::lower_bound(begins.begin(), begins.end(), std::min(k, begins.back()));
}

void make_room(Hits& hits) {
    const auto total = static_cast<std::uint64_t>(hits.limits.back());
    if (total > hits.ids.max_size()) throw std::bad_alloc();
    hits.distances.resize(static_cast<std::size_t>(total));
    hits.ids.resize(static_cast<std::size_t>(total));
}

Hits collect(const std::vector<std::size_t>& takes, const std::function<Parts(std::size_t)>& parts, unsigned bits,
             bool in_id_order, unsigned threads) {
    Hits hits;
    hits.limits.assign(takes.size() + 1, 0);
    for (std::size_t q = 0; q < takes.size(); ++q)
        hits.limits[q + 1] = hits.limits[q] + static_cast<std::int64_t>(takes[q]);
    make_room(hits);
    pool::run(takes.size(), threads, [&](std::size_t q) {
        const auto at = hits.limits[q];
        sort_entries(parts(q), bits, in_id_order, takes[q], hits.distances.data() + at, hits.ids.data() + at);
    });
    return hits;
}

}  // namespace idcwh
