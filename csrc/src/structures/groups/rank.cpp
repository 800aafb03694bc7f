// A full ranking in one pass over the places. The number of rows per distance follows from the sizes of the groups, so
// each place is written directly to its position.
#include "structures/groups/rank.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/pool.hpp"
#include "cpu/dispatch.hpp"
#include "cpu/kernels/kernels.hpp"
#include "scan/plan.hpp"

namespace idcwh {
namespace {

constexpr std::size_t least_rows = std::size_t{1} << 17;   // per query; below, a second thread does not pay
constexpr std::size_t cached_rows = std::size_t{1} << 17;  // rows whose ids fit the caches
constexpr std::size_t rank_block = 512;                    // places between measuring and writing
// bytes up to which measuring a row is faster than reading the distance of its group
constexpr std::size_t short_code = 8;

// The next position of each distance, and the end of the results.
struct Turns {
    std::vector<std::int64_t*> next;
    const std::int64_t* end;
};

enum class Room { cached, large, cut };  // cut: the results hold only a part of the rows

template <Room room>
inline void put(std::int64_t*& next, std::int64_t id, const std::int64_t* end) {
    std::int64_t* const to = next++;
    if (room != Room::cut || to < end) *to = id;
    // Each distance is written in order, but there are more of them than the hardware prefetcher follows.
    if (room != Room::cached) __builtin_prefetch(to + 16, 1);
}

// Writes the places first .. first + count - 1. Distances are read 8 bytes at a time, and the loop over them is
// unrolled. With one shared store instruction, Zen 3 predicts that each load of a position depends on the store before
// it, and waits.
template <Room room, class Distance, class Id>
void put_turns(const Distance* distances, std::size_t first, std::size_t count, Turns& turns, Id id) {
    constexpr std::size_t step = 8 / sizeof(Distance);
    std::int64_t** const next = turns.next.data();
    std::size_t at = 0;
    for (; at + step <= count; at += step) {
        std::uint64_t word;
        std::memcpy(&word, distances + at, 8);
#pragma GCC unroll 8
        for (std::size_t i = 0; i < step; ++i, word = word >> (4 * sizeof(Distance)) >> (4 * sizeof(Distance)))
            put<room>(next[static_cast<Distance>(word)], id(first + at + i), turns.end);
    }
    for (; at < count; ++at) put<room>(next[distances[at]], id(first + at), turns.end);
}

class GroupRanking {
public:
    GroupRanking(const GroupFilter& selected, const Codes& codes, std::size_t k, const SearchOptions& options)
        : selected_(selected), groups_(selected.groups()), codes_(codes), k_(k), ids_(options.ids) {
        if (groups_.ordered()) return;
        ids_by_place_.resize(groups_.size());
        for (std::size_t place = 0; place < groups_.size(); ++place)
            ids_by_place_[place] = groups_.id(static_cast<Place>(place), options.ids);
        ids_ = ids_by_place_.data();
    }

    // Ranks all rows of a query. threads: if above 1, each half of the places has its own.
    void rank(const std::uint8_t* query, unsigned threads, std::int32_t* distances, std::int64_t* ids) const {
        std::vector<std::uint16_t> measured(groups_.distinct());
        measure(groups_.codes(), query, 0, groups_.distinct(), measured.data());
        Turns low{{}, ids + k_}, high{{}, ids + k_};
        arrange(measured, low, high, distances, ids);
        if (!selected_.everything()) return put_selected(measured, low);
        const std::size_t middle = groups_.middle();
        if (threads > 1 && groups_.size() >= least_rows) {
            pool::run(2, threads, [&](std::size_t half) {
                if (half == 0) put_places(query, measured, 0, middle, low);
                if (half == 1) put_places(query, measured, middle, groups_.size(), high);
            });
        } else {
            put_places(query, measured, 0, groups_.size(), low);
        }
    }

private:
    // Measures the codes [begin, end).
    static void measure(const Codes& codes, const std::uint8_t* query, std::size_t begin, std::size_t end,
                        std::uint16_t* out) {
        const std::size_t bytes = code_bytes(codes.bits);
        for (; begin < end; begin += kernels::max_block_rows, out += kernels::max_block_rows)
            active_kernels().distances(codes.data + begin * bytes, std::min(kernels::max_block_rows, end - begin),
                                       bytes, query, out);
    }

    // Writes the distances, and sets the positions of the lower and the upper half of the places.
    void arrange(const std::vector<std::uint16_t>& measured, Turns& low, Turns& high, std::int32_t* distances,
                 std::int64_t* ids) const {
        const std::size_t count = static_cast<std::size_t>(groups_.codes().bits) + 1;
        std::vector<std::uint64_t> rows(count);  // those of the lower half in the low 32 bits
        if (selected_.everything())
            for (Group group = 0; group < measured.size(); ++group) rows[measured[group]] += groups_.halves()[group];
        else
            for (Group group = 0; group < measured.size(); ++group) rows[measured[group]] += selected_.rows(group);
        std::size_t at = 0;
        for (std::size_t d = 0; d < count; ++d) {
            const std::size_t begin = at, middle = begin + (rows[d] & 0xffffffffu);
            at = middle + (rows[d] >> 32);
            low.next.push_back(ids + begin);
            high.next.push_back(ids + middle);
            if (begin < k_) std::fill(distances + begin, distances + std::min(at, k_), static_cast<std::int32_t>(d));
        }
    }

    void put_places(const std::uint8_t* query, const std::vector<std::uint16_t>& measured, std::size_t begin,
                    std::size_t end, Turns& turns) const {
        std::uint16_t wide[rank_block];
        std::uint8_t narrow[rank_block];
        for (; begin < end; begin += rank_block) {
            const std::size_t count = std::min(rank_block, end - begin);
            if (groups_.ordered() && code_bytes(codes_.bits) <= short_code)
                measure(codes_, query, begin, begin + count, wide);
            else
                groups_.with_group_of([&](const auto* group_of) {
                    for (std::size_t i = 0; i < count; ++i) wide[i] = measured[group_of[begin + i]];
                });
            if (codes_.bits > 255) {
                put_block(wide, begin, count, turns);
            } else {
                std::copy_n(wide, count, narrow);
                put_block(narrow, begin, count, turns);
            }
        }
    }

    template <class Distance>
    void put_block(const Distance* distances, std::size_t first, std::size_t count, Turns& turns) const {
        const auto with_ids = [&](auto id) {
            if (k_ < groups_.size())
                put_turns<Room::cut>(distances, first, count, turns, id);
            else if (groups_.size() > cached_rows)
                put_turns<Room::large>(distances, first, count, turns, id);
            else
                put_turns<Room::cached>(distances, first, count, turns, id);
        };
        if (ids_)
            with_ids([ids = ids_](std::size_t place) { return ids[place]; });
        else
            with_ids([](std::size_t place) { return static_cast<std::int64_t>(place); });
    }

    void put_selected(const std::vector<std::uint16_t>& measured, Turns& turns) const {
        groups_.with_group_of([&](const auto* group_of) {
            selected_.each_place([&](std::size_t place) {
                put<Room::cut>(turns.next[measured[group_of[place]]],
                               ids_ ? ids_[place] : static_cast<std::int64_t>(place), turns.end);
            });
        });
    }

    const GroupFilter& selected_;
    const Groups& groups_;
    const Codes& codes_;
    const std::size_t k_;
    const std::int64_t* ids_;  // ids of the places; null: their numbers
    std::vector<std::int64_t> ids_by_place_;
};

// Returns, per query, the first query that is equal to it.
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

void rank_groups(const GroupFilter& selected, const Batch& batch, std::size_t k, std::int32_t* distances,
                 std::int64_t* ids, Stop& stop) {
    const std::size_t nq = batch.nq;
    const SearchOptions& options = batch.options;
    const GroupRanking ranking(selected, batch.codes, k, options);
    const std::vector<std::size_t> first = first_equal(batch.queries, nq, code_bytes(batch.codes.bits));
    const unsigned threads = options.threads                              ? options.threads
                             : selected.groups().size() * nq < least_rows ? 1
                                                                          : pool::available_threads();
    active_kernels();  // throws for an invalid IDCWH_ISA here, in the caller's thread
    pool::run(
        nq, threads,
        [&](std::size_t q) {
            stop.check();
            if (first[q] == q) ranking.rank(batch.query(q), nq < threads ? threads : 1, distances + q * k, ids + q * k);
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

}  // namespace idcwh
