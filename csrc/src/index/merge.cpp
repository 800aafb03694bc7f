// See merge.hpp.
#include "index/merge.hpp"

#include <algorithm>

namespace idcwh::detail {
namespace {

// A ranked list that is read from its front.
struct Cursor {
    const std::int32_t* distances;
    const std::int64_t* ids;
    std::size_t left;

    bool before(const Cursor& other) const {
        if (left == 0 || other.left == 0) return left != 0;
        return *distances != *other.distances ? *distances < *other.distances : *ids < *other.ids;
    }
    void take(std::int32_t*& distance, std::int64_t*& id) {
        *distance++ = *distances++;
        *id++ = *ids++;
        --left;
    }
};

void merge(Cursor a, Cursor b, std::size_t count, std::int32_t* distances, std::int64_t* ids) {
    for (; count; --count) (a.before(b) ? a : b).take(distances, ids);
}

Cursor of_query(const Lists& lists, std::size_t q) {
    return {lists.distances.data() + q * lists.length, lists.ids.data() + q * lists.length, lists.length};
}

Cursor of_query(const Hits& hits, std::size_t q) {
    const std::int64_t begin = hits.limits[q];
    return {hits.distances.data() + begin, hits.ids.data() + begin,
            static_cast<std::size_t>(hits.limits[q + 1] - begin)};
}

}  // namespace

void merge(const Lists& a, const Lists& b, std::size_t nq, std::size_t k, std::int32_t* distances, std::int64_t* ids) {
    for (std::size_t q = 0; q < nq; ++q) merge(of_query(a, q), of_query(b, q), k, distances + q * k, ids + q * k);
}

Hits merge(const Hits& a, const Hits& b) {
    Hits both;
    const std::size_t nq = a.limits.size() - 1;
    both.limits.resize(nq + 1);
    for (std::size_t q = 0; q <= nq; ++q) both.limits[q] = a.limits[q] + b.limits[q];
    both.distances.resize(a.distances.size() + b.distances.size());
    both.ids.resize(both.distances.size());
    for (std::size_t q = 0; q < nq; ++q) {
        const std::int64_t begin = both.limits[q];
        merge(of_query(a, q), of_query(b, q), static_cast<std::size_t>(both.limits[q + 1] - begin),
              both.distances.data() + begin, both.ids.data() + begin);
    }
    return both;
}

void cut_behind_ties(Hits& hits, std::size_t k) {
    std::int64_t kept = 0, begin = 0;
    for (std::size_t q = 0; q + 1 < hits.limits.size(); ++q) {
        const std::int64_t stop = hits.limits[q + 1];
        std::int64_t end = std::min(stop, begin + static_cast<std::int64_t>(k));
        if (end > begin) {
            const std::int32_t last = hits.distances[static_cast<std::size_t>(end) - 1];
            while (end < stop && hits.distances[static_cast<std::size_t>(end)] == last) ++end;
        }
        std::copy(hits.distances.begin() + begin, hits.distances.begin() + end, hits.distances.begin() + kept);
        std::copy(hits.ids.begin() + begin, hits.ids.begin() + end, hits.ids.begin() + kept);
        kept += end - begin;
        begin = stop;
        hits.limits[q + 1] = kept;
    }
    hits.distances.resize(static_cast<std::size_t>(kept));
    hits.ids.resize(static_cast<std::size_t>(kept));
}

}  // namespace idcwh::detail
