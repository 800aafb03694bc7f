// The oracle of searches: every distance bit by bit, and a sort of the eligible rows.
#pragma once

#include <idcwh/search.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace check {

using Ranking = std::vector<std::pair<std::int32_t, std::int64_t>>;  // distance and id, ascending

inline std::int32_t distance(const std::uint8_t* a, const std::uint8_t* b, std::size_t bytes) {
    std::int32_t sum = 0;
    for (std::size_t bit = 0; bit < 8 * bytes; ++bit) sum += (a[bit / 8] ^ b[bit / 8]) >> bit % 8 & 1;
    return sum;
}

// Returns the distance of each query to each code, one query after the other.
inline std::vector<std::int32_t> all_distances(const idcwh::Codes& codes, const std::vector<std::uint8_t>& queries) {
    const std::size_t bytes = idcwh::code_bytes(codes.bits);
    std::vector<std::int32_t> distances;
    for (std::size_t at = 0; at < queries.size(); at += bytes)
        for (std::size_t row = 0; row < codes.size; ++row)
            distances.push_back(distance(codes.data + row * bytes, queries.data() + at, bytes));
    return distances;
}

inline bool is_eligible(const idcwh::Rows& rows, std::size_t row) {
    using Kind = idcwh::Rows::Kind;
    if (rows.kind == Kind::range) return rows.begin <= row && row < rows.end;
    if (rows.kind == Kind::list)
        return std::binary_search(rows.list, rows.list + rows.count, static_cast<std::int64_t>(row));
    if (rows.kind == Kind::bitmap) return rows.bitmap[row / 64] & std::uint64_t{1} << row % 64;
    return rows.kind == Kind::all || rows.bytes[row];
}

// Ranks all eligible rows by their distances to one query.
inline Ranking brute_force(const idcwh::Codes& codes, const std::int32_t* distances,
                           const idcwh::SearchOptions& options = {}) {
    Ranking ranking;
    for (std::size_t row = 0; row < codes.size; ++row)
        if (is_eligible(options.rows, row))
            ranking.emplace_back(distances[row], options.ids ? options.ids[row] : static_cast<std::int64_t>(row));
    std::sort(ranking.begin(), ranking.end());
    return ranking;
}

// Returns one ranking per query.
inline std::vector<Ranking> brute_force(const idcwh::Codes& codes, const std::vector<std::uint8_t>& queries,
                                        const idcwh::SearchOptions& options = {}) {
    const auto distances = all_distances(codes, queries);
    std::vector<Ranking> rankings(queries.size() / idcwh::code_bytes(codes.bits));
    for (std::size_t q = 0; q < rankings.size(); ++q)
        rankings[q] = brute_force(codes, distances.data() + q * codes.size, options);
    return rankings;
}

inline bool starts_with(const Ranking& ranking, std::size_t count, const std::int32_t* distances,
                        const std::int64_t* ids) {
    if (count > ranking.size()) return false;
    for (std::size_t i = 0; i < count; ++i)
        if (ranking[i].first != distances[i] || ranking[i].second != ids[i]) return false;
    return true;
}

// Returns the number of rows within a radius, or of the k nearest with all ties of the last.
inline std::size_t rows_within(const Ranking& ranking, std::int64_t radius) {
    return static_cast<std::size_t>(
        std::count_if(ranking.begin(), ranking.end(), [&](const auto& row) { return row.first <= radius; }));
}
inline std::size_t rows_with_ties(const Ranking& ranking, std::size_t k) {
    k = std::min(k, ranking.size());
    return k ? rows_within(ranking, ranking[k - 1].first) : 0;
}

inline std::vector<std::int64_t> histogram(const Ranking& ranking, unsigned bits) {
    std::vector<std::int64_t> counts(bits + 1);
    for (const auto& row : ranking) ++counts[static_cast<std::size_t>(row.first)];
    return counts;
}

}  // namespace check
