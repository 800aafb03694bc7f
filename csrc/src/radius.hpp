// Everything within a radius that may differ from query to query.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rows.hpp"

namespace idcwh {

// Arguments checked already. radii: one for each query, at most codes.bits; -1: nothing.
Hits radius_each(const Codes& codes, const RowSet& rows, const std::uint8_t* queries, std::size_t nq,
                 const std::vector<std::int32_t>& radii, const SearchOptions& options);

}  // namespace idcwh
