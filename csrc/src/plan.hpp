// What every operation does before it searches: check the arguments, and cut the work into tasks for the threads.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>

namespace idcwh {

// Throws Error(invalid_argument) unless the arguments can be searched.
void check(const Codes& codes, const std::uint8_t* queries, std::size_t nq, const SearchOptions& options);

// Queries go in groups, rows in successive chunks; a task is one group over one chunk.
struct Plan {
    unsigned threads;
    std::size_t groups, group_queries;
    std::size_t chunks, chunk_rows;
};

Plan plan(const Codes& codes, std::size_t nq, const SearchOptions& options);

}  // namespace idcwh
