// The pairs of rows that pairs of distinct codes stand for. Any range of them can be written, so that threads share the
// work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/huge_array.hpp"
#include "base/interrupt.hpp"
#include "join/compare.hpp"
#include "join/distinct.hpp"

namespace idcwh::join_detail {

// The rows of the codes of one side, or the ids of these rows.
struct Members {
    Members() = default;
    // ids: by row; null: the rows themselves. The codes outlive the members, the ids need not.
    Members(const Distinct& codes, const std::int64_t* ids);

    std::uint64_t count(std::uint32_t code) const { return begins[code + 1] - begins[code]; }

    const std::uint32_t *begins = nullptr, *rows = nullptr;  // those of the codes
    HugeArray<std::int64_t> ids;                             // in the order of rows; empty: the pairs are of rows
};

// The caller's arrays.
struct PairArrays {
    std::int64_t *first, *second;
    std::int32_t* distances;
};

class Expansion {
public:
    // Replaces the pairs of codes, which are not copied: a code of a and a code of b. If these are the same, one code
    // twice stands for all pairs of its rows, and the smaller of two numbers comes first.
    void assign(const Members& a, const Members& b, const std::vector<std::vector<CodePair>>& lists, unsigned threads,
                Stop& stop);

    // Returns the number of pairs of rows.
    std::uint64_t size() const { return begins_.empty() ? 0 : begins_.back(); }
    // Writes the pairs [from, from + count).
    void write(std::uint64_t from, std::size_t count, const PairArrays& out, unsigned threads, Stop& stop) const;

private:
    std::uint64_t count(const CodePair& pair) const;
    template <class Number, bool self>
    void write_part(std::uint64_t from, std::size_t count, const PairArrays& out) const;

    const Members *a_ = nullptr, *b_ = nullptr;
    bool self_ = false;
    const std::vector<CodePair>* lists_ = nullptr;
    std::vector<std::uint64_t> begins_;               // [lists + 1], pairs of rows before each list
    std::vector<std::vector<std::uint64_t>> before_;  // per list: [portions + 1], those before each portion
};

}  // namespace idcwh::join_detail
