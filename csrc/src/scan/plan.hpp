// What every operation does before it searches: check the arguments, and cut the work into tasks for the threads.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>

#include "scan/rows.hpp"

namespace idcwh {

// Error(invalid_argument) for a code length that is not 1 to max_bits.
void check_bits(unsigned bits);

// Throws Error(invalid_argument) unless the arguments can be searched.
void check(const Codes& codes, const std::uint8_t* queries, std::size_t nq, const SearchOptions& options);
// Does the same and returns the rows of the options, checked too.
RowSet checked_rows(const Codes& codes, const std::uint8_t* queries, std::size_t nq, const SearchOptions& options);

// The same for memory that the results of nq queries, `columns` each, are written to.
void check_results(const std::int32_t* distances, const std::int64_t* ids, std::size_t nq, std::size_t columns);
void check_counts(const std::int64_t* counts, std::size_t nq, std::size_t columns);

// rows * columns, the size of an array of results; std::bad_alloc where std::size_t cannot hold it.
std::size_t product(std::size_t rows, std::size_t columns);

// Queries go in groups, the positions of the rows (rows.hpp) in successive chunks; a task is one group over one chunk.
struct Plan {
    unsigned threads;
    std::size_t groups, group_queries;
    std::size_t chunks, chunk_rows;  // a multiple of 64
    std::size_t nq, begin, end;      // all queries, all positions

    struct Task {
        std::size_t group, chunk;
        std::size_t first_query, queries;
        std::size_t begin, end;
    };
    std::size_t tasks() const { return groups * chunks; }
    Task task(std::size_t index) const;
};

// Where more than one row in so many is in the result, all distances are measured and counted.
inline constexpr std::size_t counting_share = 24;

Plan plan(const Codes& codes, const RowSet& rows, std::size_t nq, const SearchOptions& options);

}  // namespace idcwh
