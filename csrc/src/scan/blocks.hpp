// BlockReader: divides the eligible rows of a chunk into blocks for the kernels.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/kernels/kernels.hpp"
#include "scan/rows.hpp"

namespace idcwh {

// Rows of consecutive codes in memory: rows of the database, or copies of scattered rows.
struct Block {
    const std::uint8_t* codes = nullptr;
    std::size_t rows = 0;
    std::size_t first = 0;                  // number of the first row, if numbers is null
    const std::int64_t* numbers = nullptr;  // row numbers, if the rows are not consecutive in the database
    const std::uint64_t* filter = nullptr;  // bit i is set if row i is eligible; null: all are

    std::int64_t number(std::size_t row) const {
        return numbers ? numbers[row] : static_cast<std::int64_t>(first + row);
    }
};

// Removes the hits on rows that are not eligible. Returns the number of remaining hits.
inline std::size_t keep_eligible(kernels::Hit* hits, std::size_t count, const std::uint64_t* filter) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const kernels::Hit hit = hits[i];
        hits[kept] = hit;
        kept += filter[hit.row / 64] >> (hit.row % 64) & 1;
    }
    return kept;
}

// Consecutive rows are read in place. If most rows of a bitmap's block are eligible, they are too, with a filter. If
// few are, copies of them form the block, so that the other rows are neither read nor compared.
class BlockReader {
public:
    // Reads positions [begin, end) of `rows`; begin is a multiple of 64 if there is a bitmap. gather_below: the eighths
    // of a block's rows below which eligible rows are copied. check: next() throws Error(invalid_argument) if a padding
    // bit is set. Otherwise it does so for the widest codes only, whose distances would not fit 16 bits.
    BlockReader(const Codes& codes, const RowSet& rows, std::size_t begin, std::size_t end, unsigned gather_below,
                bool check = false);
    // Returns the next block, of at most max_rows rows (a multiple of 64), or one without rows at the end.
    Block next(std::size_t max_rows);

private:
    Block next_unchecked(std::size_t max_rows);
    Block next_of_list(std::size_t max_rows);
    Block next_of_bitmap(std::size_t max_rows);
    std::uint64_t word(std::size_t index) const;
    // Returns a block of copies of these rows.
    Block gather(const std::int64_t* numbers, std::size_t count);

    const Codes& codes_;
    const RowSet& rows_;
    const std::size_t bytes_;
    const unsigned gather_below_;
    const bool check_;
    std::size_t at_, end_;
    std::vector<std::uint8_t> gathered_;
    std::vector<std::int64_t> numbers_;
};

}  // namespace idcwh
