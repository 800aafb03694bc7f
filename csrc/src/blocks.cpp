// Cutting a range of rows into blocks; see blocks.hpp.
#include "blocks.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace idcwh {
namespace {

constexpr std::uint64_t each_byte = 0x0101010101010101u;

// The top bit of every byte that is not zero.
inline std::uint64_t non_zero_bytes(std::uint64_t eight) {
    constexpr std::uint64_t low = 0x7f * each_byte, high = 0x80 * each_byte;
    return (((eight & low) + low) | eight) & high;
}

}  // namespace

std::size_t eligible(const Codes& codes, const SearchOptions& options) {
    if (!options.rows.bytes) return codes.size;
    std::size_t count = 0, row = 0;
    while (row + 8 <= codes.size) {
        const std::size_t stop = std::min(codes.size - 7, row + 8 * 255);  // as many as a byte can count
        std::uint64_t counts = 0;
        for (; row < stop; row += 8) {
            std::uint64_t eight;
            std::memcpy(&eight, options.rows.bytes + row, 8);
            counts += non_zero_bytes(eight) >> 7;
        }
        count += ((counts & 0x00ff00ff00ff00ffu) + (counts >> 8 & 0x00ff00ff00ff00ffu)) * 0x0001000100010001u >> 48;
    }
    for (; row < codes.size; ++row) count += options.rows.bytes[row] != 0;
    return count;
}

BlockReader::BlockReader(const Codes& codes, const std::uint8_t* mask, std::size_t begin, std::size_t end)
    : codes_(codes), bytes_(code_bytes(codes.bits)), mask_(mask), at_(begin), end_(end) {}

Block BlockReader::next(std::size_t max_rows) {
    const std::size_t rows = std::min(max_rows, end_ - at_);
    if (rows && mask_ && std::memchr(mask_ + at_, 0, rows)) return gather(max_rows);
    const Block block{codes_.data + at_ * bytes_, rows, at_, nullptr};
    at_ += rows;
    return block;
}

Block BlockReader::gather(std::size_t max_rows) {
    numbers_.clear();
    // First the numbers, so that the codes, which lie far apart when the mask is thin, are on their way when they are
    // copied.
    while (at_ < end_ && numbers_.size() + 8 <= max_rows) {
        const std::size_t rows = std::min<std::size_t>(8, end_ - at_);
        std::uint64_t eight = 0;
        std::memcpy(&eight, mask_ + at_, rows);
        for (std::uint64_t set = non_zero_bytes(eight); set; set &= set - 1) {
            const std::size_t row = at_ + static_cast<std::size_t>(std::countr_zero(set)) / 8;  // little-endian
            numbers_.push_back(row);
            __builtin_prefetch(codes_.data + row * bytes_);
        }
        at_ += rows;
    }
    gathered_.resize(std::max(gathered_.size(), numbers_.size() * bytes_));
    std::uint8_t* to = gathered_.data();
    for (const std::size_t row : numbers_) {
        std::memcpy(to, codes_.data + row * bytes_, bytes_);
        to += bytes_;
    }
    return {gathered_.data(), numbers_.size(), 0, numbers_.data()};
}

}  // namespace idcwh
