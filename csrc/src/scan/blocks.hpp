// The eligible rows of a part of the database, a block at a time.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/kernels/kernels.hpp"
#include "scan/rows.hpp"

namespace idcwh {

struct Block {
    const std::uint8_t* codes = nullptr;
    std::size_t rows = 0;
    std::size_t first = 0;                  // the first row's number, where numbers is null
    const std::int64_t* numbers = nullptr;  // the row numbers, where the rows do not follow one another
    const std::uint64_t* filter = nullptr;  // bit i says whether row i is eligible; null: all are

    std::int64_t number(std::size_t row) const {
        return numbers ? numbers[row] : static_cast<std::int64_t>(first + row);
    }
};

// The hits on eligible rows move to the front; returns how many they are.
inline std::size_t keep_eligible(kernels::Hit* hits, std::size_t count, const std::uint64_t* filter) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const kernels::Hit hit = hits[i];
        hits[kept] = hit;
        kept += filter[hit.row / 64] >> (hit.row % 64) & 1;
    }
    return kept;
}

// Rows that follow one another are read where they lie. So are those of a bitmap where most are eligible, and the
// block's filter then says which; where few are, they are gathered, so that the others are neither read nor measured.
class BlockReader {
public:
    // Positions [begin, end) of `rows`; begin is a multiple of 64 where there is a bitmap.
    // gather_below: eighths of a block's rows that must be eligible for it to be read where it lies.
    BlockReader(const Codes& codes, const RowSet& rows, std::size_t begin, std::size_t end, unsigned gather_below);
    // The next block, of at most max_rows rows (a multiple of 64); rows == 0 at the end.
    Block next(std::size_t max_rows);

private:
    Block next_of_list(std::size_t max_rows);
    Block next_of_bitmap(std::size_t max_rows);
    std::uint64_t word(std::size_t index) const;
    // A block of copies of these rows.
    Block gather(const std::int64_t* numbers, std::size_t count);

    const Codes& codes_;
    const RowSet& rows_;
    const std::size_t bytes_;
    const unsigned gather_below_;
    std::size_t at_, end_;
    std::vector<std::uint8_t> gathered_;
    std::vector<std::int64_t> numbers_;
};

}  // namespace idcwh
