// Ranks without a sort. The rank of an item is the number of nearer items plus the number of earlier rows at the same
// distance. The first is known at the end, the second when the row is counted.
#include "metrics/pass.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/dispatch.hpp"

namespace idcwh::metrics {
namespace {

// benchmarks/evaluate.py measures the effect of these constants.
constexpr std::size_t block_rows = 1024;  // keeps the data that a block reads several times in the first-level cache
// Distance between the blocks of two queries. Blocks at equal offsets in a page would cause 4K aliasing, in which the
// store of one query delays the loads of another.
constexpr std::size_t block_stride = block_rows + 32 * 5;
constexpr std::size_t blocks_per_check = 64;
// With ranks, every row is visited. Up to this width, computing its distance is faster than reading it by the index of
// its code.
constexpr std::size_t narrow_bytes = 16;

// Writes positions[i], the number of earlier rows at the distance of row i. counts continues from block to block.
void count_one(const std::uint16_t* distances, std::size_t rows, std::uint32_t* counts, std::uint32_t* positions) {
    for (std::size_t i = 0; i < rows; ++i) positions[i] = counts[distances[i]]++;
}

// Does the same for a whole tile and alternates between its queries. If many rows have the same distance, a single
// query would wait for its last store to the same count.
void count_tile(const std::uint16_t* distances, std::size_t rows, std::uint32_t* counts, std::size_t stride,
                std::uint32_t* positions) {
    static_assert(tile_queries == 4);
    std::uint32_t *const a = counts, *const b = a + stride, *const c = b + stride, *const d = c + stride;
    for (std::size_t i = 0; i < rows; ++i) {
        positions[i] = a[distances[i]]++;
        positions[block_stride + i] = b[distances[block_stride + i]]++;
        positions[2 * block_stride + i] = c[distances[2 * block_stride + i]]++;
        positions[3 * block_stride + i] = d[distances[3 * block_stride + i]]++;
    }
}

}  // namespace

Database::Database(const Codes& all, bool ranked) : codes(all), rows(all.size) {
    const std::size_t bytes = code_bytes(all.bits);
    if (ranked && bytes <= narrow_bytes) return;
    Distinct distinct = distinct_rows(all.data, all.size, bytes);
    if (distinct.size() > all.size / 2) return;  // too few repeats: a table look-up per row would save nothing
    group = std::move(distinct.number);
    group_size.resize(distinct.size());
    for (const auto number : group) ++group_size[number];
    distinct_codes.reserve(distinct.size() * bytes);
    for (const auto row : distinct.first)
        distinct_codes.insert(distinct_codes.end(), all.data + row * bytes, all.data + (row + 1) * bytes);
    codes.data = distinct_codes.data();
    codes.size = distinct.size();
}

Pass::Pass(const Database& database, const Relevance& relevance, const PairOptions& options, PairCounts& result,
           Stop& stop)
    : database_(database),
      relevance_(relevance),
      options_(options),
      result_(result),
      stop_(stop),
      bytes_(code_bytes(database.codes.bits)),
      distances_(result.distances),
      measured_(tile_queries * block_stride),
      positions_(options.ranked ? tile_queries * block_stride : 0),
      items_(tile_queries * distances_),
      hits_(tile_queries * distances_),
      found_(tile_queries) {
    // Ranks beyond the last cut share one entry.
    const std::size_t last = options.cut_count ? std::min(options.cuts[options.cut_count - 1], database.rows) : 0;
    cut_of_rank_.resize(last + 2, static_cast<std::uint32_t>(options.cut_count));
    for (std::size_t rank = 0, cut = 0; rank <= last && options.cut_count; ++rank) {
        while (rank > options.cuts[cut]) ++cut;
        cut_of_rank_[rank] = static_cast<std::uint32_t>(cut);
    }
    if (database.group.size() || !options.ranked) distances_of_codes_.resize(tile_queries * database.codes.size);
    if (database.group.size() && !options.ranked) hits_of_code_.resize(database.codes.size);
}

void Pass::count(const Tile& tile) {
    std::fill(items_.begin(), items_.end(), 0);
    std::fill(hits_.begin(), hits_.end(), 0);
    const RowList relevant = relevance_.relevant(tile.label, relevant_scratch_);
    if (!distances_of_codes_.empty())
        for (std::size_t t = 0; t < tile.size; ++t)
            measure(tile.query[t], 0, database_.codes.size, distances_of_codes_.data() + t * database_.codes.size);
    if (options_.ranked)
        count_rows(tile, relevant);
    else
        count_codes(tile, relevant);
    for (std::size_t t = 0; t < tile.size; ++t) {
        const std::size_t to = tile.row[t] * distances_;
        std::copy_n(items_.begin() + t * distances_, distances_, result_.items.begin() + to);
        std::copy_n(hits_.begin() + t * distances_, distances_, result_.relevant.begin() + to);
        if (options_.leave_one_out) {  // a query with a label is relevant to itself
            --result_.items[to];
            if (relevant.size) --result_.relevant[to];
        }
        if (!options_.ranked) continue;
        count_nearer(t);
        options_.leave_one_out ? sum_ranked_others(t, tile.row[t], relevant) : sum_ranked(t, tile.row[t]);
    }
}

// Writes the distances of the codes [begin, begin + rows).
void Pass::measure(const std::uint8_t* query, std::size_t begin, std::size_t rows, std::uint16_t* out) const {
    const auto& kernels = active_kernels();
    for (std::size_t at = 0; at < rows; at += kernels::max_block_rows)
        kernels.distances(database_.codes.data + (begin + at) * bytes_, std::min(kernels::max_block_rows, rows - at),
                          bytes_, query, out + at);
}

// Counts every code once, with the number of its items.
void Pass::count_codes(const Tile& tile, const RowList& relevant) {
    const std::size_t codes = database_.codes.size;
    const bool grouped = !database_.group.empty();
    hit_codes_.clear();
    for (std::size_t i = 0; grouped && i < relevant.size; ++i) {
        const auto code = database_.group[relevant.rows[i]];
        if (hits_of_code_[code]++ == 0) hit_codes_.push_back(code);
    }
    for (std::size_t t = 0; t < tile.size; ++t) {
        const std::uint16_t* const distance = distances_of_codes_.data() + t * codes;
        std::uint32_t *const items = items_.data() + t * distances_, *const hits = hits_.data() + t * distances_;
        if (grouped) {
            for (std::size_t code = 0; code < codes; ++code) items[distance[code]] += database_.group_size[code];
            for (const auto code : hit_codes_) hits[distance[code]] += hits_of_code_[code];
        } else {
            for (std::size_t code = 0; code < codes; ++code) ++items[distance[code]];
            for (std::size_t i = 0; i < relevant.size; ++i) ++hits[distance[relevant.rows[i]]];
        }
        stop_.check();
    }
    for (const auto code : hit_codes_) hits_of_code_[code] = 0;
}

// Counts row by row, so that the position of each row among those at its distance is known.
void Pass::count_rows(const Tile& tile, const RowList& relevant) {
    const std::size_t codes = database_.codes.size;
    for (std::size_t t = 0; t < tile.size; ++t) {
        found_[t].distance.resize(relevant.size);
        found_[t].earlier.resize(relevant.size);
    }
    std::size_t next = 0;  // index of the next relevant row
    for (std::size_t begin = 0, block = 0; begin < database_.rows; begin += block_rows, ++block) {
        const std::size_t rows = std::min(block_rows, database_.rows - begin);
        for (std::size_t t = 0; t < tile.size; ++t) {
            std::uint16_t* const out = measured_.data() + t * block_stride;
            if (database_.group.empty()) {
                measure(tile.query[t], begin, rows, out);
            } else {
                const std::uint16_t* const distance = distances_of_codes_.data() + t * codes;
                for (std::size_t i = 0; i < rows; ++i) out[i] = distance[database_.group[begin + i]];
            }
        }
        if (tile.size == tile_queries)
            count_tile(measured_.data(), rows, items_.data(), distances_, positions_.data());
        else
            for (std::size_t t = 0; t < tile.size; ++t)
                count_one(measured_.data() + t * block_stride, rows, items_.data() + t * distances_,
                          positions_.data() + t * block_stride);

        std::size_t stop = next;
        while (stop < relevant.size && relevant.rows[stop] < begin + rows) ++stop;
        for (std::size_t t = 0; t < tile.size; ++t) {
            const std::uint16_t* const measured = measured_.data() + t * block_stride;
            const std::uint32_t* const positions = positions_.data() + t * block_stride;
            std::uint32_t* const hits = hits_.data() + t * distances_;
            for (std::size_t i = next; i < stop; ++i) {
                const std::size_t row = relevant.rows[i] - begin;
                const std::uint16_t distance = measured[row];
                found_[t].distance[i] = distance;
                found_[t].earlier[i] = positions[row] | std::uint64_t{hits[distance]++} << 32;
            }
        }
        next = stop;
        if (block % blocks_per_check == blocks_per_check - 1) stop_.check();
    }
    stop_.check();
}

void Pass::count_nearer(std::size_t t) {
    const std::uint32_t *const items = items_.data() + t * distances_, *const hits = hits_.data() + t * distances_;
    nearer_.resize(distances_);
    std::uint32_t all = 0, relevant = 0;
    for (std::size_t d = 0; d < distances_; ++d) {
        nearer_[d] = {all, relevant};
        all += items[d], relevant += hits[d];
    }
}

// Sums the precision at each relevant item of query t of the tile, over all items and up to each cut.
void Pass::sum_ranked(std::size_t t, std::size_t row) {
    // One sum per interval between two cuts. Each sum has several lanes, because an addition to a sum in memory waits
    // for the previous one.
    constexpr std::size_t lanes = 4;
    const std::size_t cuts = options_.cut_count, last = cut_of_rank_.size() - 1;
    std::vector<Sum> lane(lanes * (cuts + 1));
    const Found& found = found_[t];
    for (std::size_t i = 0; i < found.distance.size(); ++i) {
        const Nearer& nearer = nearer_[found.distance[i]];
        const std::size_t rank = std::size_t{nearer.items} + (found.earlier[i] & 0xffffffffu) + 1;
        const std::size_t so_far = std::size_t{nearer.hits} + (found.earlier[i] >> 32) + 1;
        Sum& sum = lane[i % lanes * (cuts + 1) + cut_of_rank_[std::min(rank, last)]];
        sum.precision += static_cast<double>(static_cast<std::int64_t>(so_far)) /
                         static_cast<double>(static_cast<std::int64_t>(rank));
        ++sum.hits;
    }
    double* const sums = result_.ranked_sum.data() + row * (cuts + 1);
    std::int64_t* const counts = result_.ranked_hits.data() + row * cuts;
    double precision = 0;
    std::int64_t number = 0;
    for (std::size_t cut = 0; cut <= cuts; ++cut) {
        for (std::size_t i = 0; i < lanes; ++i) {
            precision += lane[i * (cuts + 1) + cut].precision;
            number += lane[i * (cuts + 1) + cut].hits;
        }
        sums[cut] = precision;
        if (cut < cuts) counts[cut] = number;
    }
}

// Does the same for each item whose code and label are those of query t, without the item itself. It is at distance 0,
// so later items have one item and one hit fewer before them. Earlier ones at distance 0 are summed in row order, the
// others in the opposite order.
void Pass::sum_ranked_others(std::size_t t, std::size_t row, const RowList& relevant) {
    const std::size_t cuts = options_.cut_count, last = cut_of_rank_.size() - 1;
    const Found& found = found_[t];
    const auto add = [&](std::vector<Sum>& sums, std::size_t i, std::size_t fewer) {
        const Nearer& nearer = nearer_[found.distance[i]];
        const std::size_t rank = std::size_t{nearer.items} + (found.earlier[i] & 0xffffffffu) + 1 - fewer;
        const std::size_t so_far = std::size_t{nearer.hits} + (found.earlier[i] >> 32) + 1 - fewer;
        if (!so_far) return;  // the first relevant item; no other one is left out before it
        Sum& sum = sums[cut_of_rank_[std::min(rank, last)]];
        sum.precision += static_cast<double>(static_cast<std::int64_t>(so_far)) /
                         static_cast<double>(static_cast<std::int64_t>(rank));
        ++sum.hits;
    };
    const auto is_left_out = [&](std::size_t i) {
        return static_cast<std::size_t>(result_.row[relevant.rows[i]]) == row;
    };
    const auto put = [&](const std::vector<Sum>& sums, std::size_t i) {
        double* const precision = result_.ranked_sum.data() + relevant.rows[i] * (cuts + 1);
        std::int64_t* const hits = result_.ranked_hits.data() + relevant.rows[i] * cuts;
        Sum all;
        for (std::size_t cut = 0; cut <= cuts; ++cut) {
            all.precision += sums[cut].precision;
            all.hits += sums[cut].hits;
            precision[cut] += all.precision;
            if (cut < cuts) hits[cut] += all.hits;
        }
    };
    std::vector<Sum> before(cuts + 1), after(cuts + 1);
    const std::size_t size = found.distance.size();
    for (std::size_t i = 0; i < size; ++i) {
        if (found.distance[i]) {
            add(after, i, 1);
            continue;
        }
        if (is_left_out(i)) put(before, i);
        add(before, i, 0);
    }
    for (std::size_t i = size; i-- > 0;) {
        if (found.distance[i]) continue;
        if (is_left_out(i)) put(after, i);
        add(after, i, 1);
    }
}

}  // namespace idcwh::metrics
