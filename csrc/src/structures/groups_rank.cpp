// A full ranking by one pass over the places: how many rows each distance has is known from the sizes of the groups,
// and each place is then put where the distance of its group and its turn say.
//
// A turn is a counter in memory, and places at the same distance would wait for one another. So the places go in four
// streams with counters of their own: up from the beginning and down from the middle, up from the middle and down from
// the end. Where they begin follows from two numbers a distance: its rows in the lower half of the places and in the
// upper one.
#include "groups_rank.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "../dispatch.hpp"
#include "../kernels/kernels.hpp"
#include "../plan.hpp"
#include "../pool.hpp"

namespace idcwh {
namespace {

constexpr std::size_t least_rows = std::size_t{1} << 17;  // of one query, below which a second thread does not pay

// Counters of the two streams of one half: by distance, the next slot upwards, and one past the next one downwards.
struct Turns {
    std::vector<std::uint32_t> up, down;
};

class GroupRanking {
public:
    GroupRanking(const Selected& selected, std::size_t k, const SearchOptions& options)
        : selected_(selected), groups_(selected.groups()), k_(k), ids_(options.ids) {
        if (!groups_.order() || !ids_) return;
        ids_by_place_.resize(groups_.size());
        for (std::size_t place = 0; place < groups_.size(); ++place)
            ids_by_place_[place] = ids_[groups_.row(static_cast<Place>(place))];
        ids_ = ids_by_place_.data();
    }

    // threads: above 1, each half of the places has its own.
    void rank(const std::uint8_t* query, unsigned threads, std::int32_t* distances, std::int64_t* ids) const {
        std::vector<std::uint16_t> measured(groups_.distinct());
        measure(query, measured.data());
        Turns low, high;
        arrange(measured, low, high, distances);
        const std::uint16_t* const distance_of = measured.data();
        groups_.with_group_of([&](const auto* group_of) {
            with_ids([&](auto id) {
                const auto distance = [=](std::size_t place) { return distance_of[group_of[place]]; };
                if (!selected_.everything())
                    put_selected(distance, id, low.up.data(), ids);
                else if (k_ < groups_.size())
                    put(distance, id, low, high, threads, [&, ids](std::size_t at, std::int64_t value) {
                        if (at < k_) ids[at] = value;
                    });
                else
                    put(distance, id, low, high, threads,
                        [ids](std::size_t at, std::int64_t value) { ids[at] = value; });
            });
        });
    }

private:
    void measure(const std::uint8_t* query, std::uint16_t* out) const {
        const Codes codes = groups_.codes();
        const std::size_t bytes = code_bytes(codes.bits);
        for (std::size_t at = 0; at < codes.size; at += kernels::max_block_rows)
            active_kernels().distances(codes.data + at * bytes, std::min(kernels::max_block_rows, codes.size - at),
                                       bytes, query, out + at);
    }

    // Writes the distances, and sets the turns of each.
    void arrange(const std::vector<std::uint16_t>& measured, Turns& low, Turns& high, std::int32_t* distances) const {
        const std::size_t count = static_cast<std::size_t>(groups_.codes().bits) + 1;
        std::vector<std::uint64_t> rows(count);  // lower half in the low 32 bits
        if (selected_.everything())
            for (Group group = 0; group < measured.size(); ++group) rows[measured[group]] += groups_.halves()[group];
        else
            for (Group group = 0; group < measured.size(); ++group) rows[measured[group]] += selected_.rows(group);
        for (Turns* turns : {&low, &high}) turns->up.resize(count), turns->down.resize(count);
        std::size_t at = 0;
        for (std::size_t d = 0; d < count; ++d) {
            const std::size_t begin = at, middle = begin + (rows[d] & 0xffffffffu);
            at = middle + (rows[d] >> 32);
            low.up[d] = static_cast<std::uint32_t>(begin);
            low.down[d] = high.up[d] = static_cast<std::uint32_t>(middle);
            high.down[d] = static_cast<std::uint32_t>(at);
            if (begin < k_) std::fill(distances + begin, distances + std::min(at, k_), static_cast<std::int32_t>(d));
        }
    }

    template <class Body>
    void with_ids(Body body) const {
        if (ids_)
            body([ids = ids_](std::size_t place) { return ids[place]; });
        else if (const std::uint32_t* order = groups_.order())
            body([order](std::size_t place) { return static_cast<std::int64_t>(order[place]); });
        else
            body([](std::size_t place) { return static_cast<std::int64_t>(place); });
    }

    template <class Distance, class Id>
    void put_selected(Distance distance, Id id, std::uint32_t* next, std::int64_t* ids) const {
        for (std::size_t place = 0; place < groups_.size(); ++place) {
            if (!selected_.contains(static_cast<Place>(place))) continue;
            const std::size_t at = next[distance(place)]++;
            if (at < k_) ids[at] = id(place);
        }
    }

    template <class Distance, class Id, class Write>
    void put(Distance distance, Id id, Turns& low, Turns& high, unsigned threads, Write write) const {
        const auto up = [=](std::size_t place, std::uint32_t* next) { write(next[distance(place)]++, id(place)); };
        const auto down = [=](std::size_t place, std::uint32_t* next) { write(--next[distance(place)], id(place)); };
        const std::size_t size = groups_.size(), middle = groups_.middle();
        if (threads > 1 && size >= least_rows) {
            pool::run(2, threads, [&](std::size_t half) {
                Turns& turns = half ? high : low;
                std::uint32_t *const ups = turns.up.data(), *const downs = turns.down.data();
                std::size_t first = half ? middle : 0, last = half ? size : middle;
                while (last - first >= 2) up(first++, ups), down(--last, downs);
                if (first < last) up(first, ups);
            });
            return;
        }
        std::uint32_t *const a = low.up.data(), *const b = low.down.data(), *const c = high.up.data(),
                             *const d = high.down.data();
        std::size_t first = 0, last = middle;
        for (; last - first >= 2; ++first) {
            --last;
            up(first, a), down(last, b), up(middle + first, c), down(size - 1 - first, d);
        }
        // At most one place of the lower half is left, and two of the upper.
        if (first < last) up(first, a);
        for (std::size_t place = middle + first; place < size - first; ++place) up(place, c);
    }

    const Selected& selected_;
    const Groups& groups_;
    const std::size_t k_;
    const std::int64_t* ids_;
    std::vector<std::int64_t> ids_by_place_;
};

// For each query the first one that is equal.
std::vector<std::size_t> first_equal(const std::uint8_t* queries, std::size_t nq, std::size_t bytes) {
    std::vector<std::size_t> order(nq), first(nq);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto compare = [&](std::size_t a, std::size_t b) {
        return std::memcmp(queries + a * bytes, queries + b * bytes, bytes);
    };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const int difference = compare(a, b);
        return difference ? difference < 0 : a < b;
    });
    for (std::size_t i = 0; i < nq; ++i)
        first[order[i]] = i > 0 && compare(order[i], order[i - 1]) == 0 ? first[order[i - 1]] : order[i];
    return first;
}

}  // namespace

void rank_groups(const Selected& selected, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                 std::int32_t* distances, std::int64_t* ids, const SearchOptions& options, Stop& stop) {
    const std::size_t bytes = code_bytes(selected.groups().codes().bits);
    const GroupRanking ranking(selected, k, options);
    const std::vector<std::size_t> first = first_equal(queries, nq, bytes);
    const unsigned threads = options.threads                              ? options.threads
                             : selected.groups().size() * nq < least_rows ? 1
                                                                          : pool::available_threads();
    active_kernels();  // a wrong IDCWH_ISA is reported here, by the caller's thread
    pool::run(
        nq, threads,
        [&](std::size_t q) {
            stop.check();
            if (first[q] == q)
                ranking.rank(queries + q * bytes, nq < threads ? threads : 1, distances + q * k, ids + q * k);
        },
        stop.while_waiting());
    pool::run(
        nq, threads,
        [&](std::size_t q) {
            if (first[q] == q) return;
            stop.check();
            std::copy_n(distances + first[q] * k, k, distances + q * k);
            std::copy_n(ids + first[q] * k, k, ids + q * k);
        },
        stop.while_waiting());
}

std::size_t rank(const Groups& groups, const Codes& codes, const std::uint8_t* queries, std::size_t nq,
                 std::int32_t* distances, std::int64_t* ids, const SearchOptions& options) {
    check(codes, queries, nq, options);
    const RowSet rows(options.rows, codes.size);
    if (rows.count == 0 || nq == 0) return rows.count;
    if (!distances || !ids)
        throw Error(ErrorCode::invalid_argument, "distances and ids must have room for the results, not be null");
    Stop stop(options.interrupt);
    rank_groups(Selected(groups, rows), queries, nq, rows.count, distances, ids, options, stop);
    return rows.count;
}

}  // namespace idcwh
