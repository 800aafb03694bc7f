// The rows of a range, a block at a time, without those a mask leaves out.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace idcwh {

struct Block {
    const std::uint8_t* codes;
    std::size_t rows;
    std::size_t first;           // the first row's number, where numbers is null
    const std::size_t* numbers;  // the row numbers of a block gathered through a mask

    std::size_t number(std::size_t row) const { return numbers ? numbers[row] : first + row; }
};

// Where the mask lets every row of a block through, the block lies in the caller's memory; otherwise its rows are
// gathered, so that the kernels never measure what cannot be a hit.
class BlockReader {
public:
    BlockReader(const Codes& codes, const std::uint8_t* mask, std::size_t begin, std::size_t end);
    // The next block, of at most max_rows rows (8 or more); rows == 0 at the end.
    Block next(std::size_t max_rows);

private:
    Block gather(std::size_t max_rows);

    const Codes& codes_;
    const std::size_t bytes_;
    const std::uint8_t* mask_;
    std::size_t at_, end_;
    std::vector<std::uint8_t> gathered_;
    std::vector<std::size_t> numbers_;
};

}  // namespace idcwh
