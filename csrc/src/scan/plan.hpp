// The first steps of every search: checks of arguments, and the division of the work into tasks for the threads.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>

#include "scan/rows.hpp"

namespace idcwh {

// Throws Error(invalid_argument) unless 1 <= bits <= max_bits.
void check_bits(unsigned bits);

// Returns the first row with a padding bit that is set, or codes.size. The other arguments of the codes are checked.
std::size_t first_padded(const Codes& codes);
// Throws Error(invalid_argument) if there is such a row.
void check_padding(const Codes& codes, const char* name);
[[noreturn]] void fail_padding(const char* name, std::size_t row, unsigned bits);

// Throws Error(invalid_argument) for invalid arguments of a search, except its rows and the padding of its codes.
void check(const Codes& codes, const std::uint8_t* queries, std::size_t nq, const SearchOptions& options);
// Checks the rows too, and returns them.
RowSet checked_rows(const Codes& codes, const std::uint8_t* queries, std::size_t nq, const SearchOptions& options);

// Throws Error(invalid_argument) for invalid outputs of nq queries with `columns` results each.
void check_results(const std::int32_t* distances, const std::int64_t* ids, std::size_t nq, std::size_t columns);
void check_counts(const std::int64_t* counts, std::size_t nq, std::size_t columns);

// Returns rows * columns, the size of an array of results. Throws std::bad_alloc if it overflows std::size_t.
std::size_t product(std::size_t rows, std::size_t columns);

// A division of the work: queries into groups, and positions of rows (rows.hpp) into chunks. A task searches one chunk
// for one group.
struct Plan {
    unsigned threads;
    std::size_t groups, group_queries;
    std::size_t chunks, chunk_rows;  // chunk_rows is a multiple of 64
    std::size_t nq, begin, end;      // all queries, all positions

    struct Task {
        std::size_t group, chunk;
        std::size_t first_query, queries;
        std::size_t begin, end;
    };
    std::size_t tasks() const { return groups * chunks; }
    Task task(std::size_t index) const;
};

// If more than one in this many rows is in the result, a counting sort of all distances is faster than a pruned scan.
// Measured by csrc/bench/scan.cpp.
inline constexpr std::size_t counting_share = 24;

Plan plan(const Codes& codes, const RowSet& rows, std::size_t nq, const SearchOptions& options);

}  // namespace idcwh
