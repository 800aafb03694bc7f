// See blocks.hpp.
#include "scan/blocks.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/dispatch.hpp"
#include "scan/plan.hpp"

namespace idcwh {
namespace {

constexpr std::size_t ahead = 64;           // rows between prefetch and copy; measured by csrc/bench/scan.cpp
constexpr std::size_t max_gathered = 1024;  // keeps the copies of common widths in the first-level cache

// Copies rows. Width: bytes of a row as a constant, or 0 to use `bytes`.
template <std::size_t Width>
void copy_rows(const std::uint8_t* codes, std::size_t bytes, const std::int64_t* numbers, std::size_t count,
               std::uint8_t* to) {
    const std::size_t width = Width ? Width : bytes;
    const auto row = [&](std::size_t i) { return codes + static_cast<std::size_t>(numbers[i]) * width; };
    const auto fetch = [&](std::size_t i) {
        for (std::size_t line = 0; line < width; line += 64) __builtin_prefetch(row(i) + line, 0, 0);  // read once
    };
    for (std::size_t i = 0; i < std::min(ahead, count); ++i) fetch(i);
    std::size_t i = 0;
    for (; i + ahead < count; ++i, to += width) {
        fetch(i + ahead);
        std::memcpy(to, row(i), width);
    }
    for (; i < count; ++i, to += width) std::memcpy(to, row(i), width);
}

}  // namespace

BlockReader::BlockReader(const Codes& codes, const RowSet& rows, std::size_t begin, std::size_t end,
                         unsigned gather_below, bool check)
    : codes_(codes),
      rows_(rows),
      bytes_(code_bytes(codes.bits)),
      gather_below_(gather_below),
      check_(check || codes.bits > max_bits - 7),
      at_(begin),
      end_(end) {}

Block BlockReader::next(std::size_t max_rows) {
    const Block block = next_unchecked(max_rows);
    if (!check_) return block;
    const std::size_t row = first_padded({block.codes, block.rows, codes_.bits});
    if (row < block.rows) fail_padding("codes", static_cast<std::size_t>(block.number(row)), codes_.bits);
    return block;
}

Block BlockReader::next_unchecked(std::size_t max_rows) {
    if (rows_.kind == RowSet::Kind::list) return next_of_list(max_rows);
    if (rows_.kind == RowSet::Kind::bitmap) return next_of_bitmap(max_rows);
    const Block block{codes_.data + at_ * bytes_, std::min(max_rows, end_ - at_), at_};
    at_ += block.rows;
    return block;
}

Block BlockReader::next_of_list(std::size_t max_rows) {
    const std::int64_t* numbers = rows_.list + at_;
    const auto follow = [&](std::size_t count) {
        return static_cast<std::size_t>(numbers[count - 1] - numbers[0]) == count - 1;
    };
    std::size_t count = std::min(max_rows, end_ - at_);
    if (count == 0) return {};
    const bool in_place = follow(count);
    if (!in_place) count = std::min(count, max_gathered);
    at_ += count;
    const auto first = static_cast<std::size_t>(numbers[0]);
    return in_place ? Block{codes_.data + first * bytes_, count, first} : gather(numbers, count);
}

// Returns a word of the bitmap without the bits of rows from end_ on.
std::uint64_t BlockReader::word(std::size_t index) const {
    const std::uint64_t word = rows_.bitmap[index];
    return 64 * (index + 1) <= end_ ? word : word & ((std::uint64_t{1} << end_ % 64) - 1);
}

Block BlockReader::next_of_bitmap(std::size_t max_rows) {
    while (at_ < end_ && !word(at_ / 64)) at_ += 64;
    if (at_ >= end_) return {};
    const std::size_t rows = std::min(max_rows, end_ - at_), set = rows_.eligible(at_, at_ + rows);
    if (8 * set >= gather_below_ * rows) {
        const std::size_t first = at_;
        at_ += rows;
        return {codes_.data + first * bytes_, rows, first, nullptr, set < rows ? rows_.bitmap + first / 64 : nullptr};
    }
    const std::size_t capacity = std::min(max_rows, max_gathered), words = (end_ - at_) / 64;
    numbers_.resize(std::max(numbers_.size(), capacity));
    const auto& kernels = active_kernels();
    const auto first = static_cast<std::int64_t>(at_);
    const kernels::Listed listed = kernels.list_bits(rows_.bitmap + at_ / 64, words, first, numbers_.data(), capacity);
    at_ += 64 * listed.words;
    std::size_t count = listed.bits;
    if (at_ < end_ && listed.words == words && count + 64 <= capacity) {  // the last word is incomplete
        const std::uint64_t last = word(at_ / 64);
        count += kernels.list_bits(&last, 1, static_cast<std::int64_t>(at_), numbers_.data() + count, 64).bits;
        at_ = end_;
    }
    return gather(numbers_.data(), count);
}

Block BlockReader::gather(const std::int64_t* numbers, std::size_t count) {
    gathered_.resize(std::max(gathered_.size(), count * bytes_));
    const auto copy = [&] {
        switch (bytes_) {
            case 4: return copy_rows<4>;
            case 6: return copy_rows<6>;
            case 8: return copy_rows<8>;
            case 12: return copy_rows<12>;
            case 16: return copy_rows<16>;
            case 32: return copy_rows<32>;
            default: return copy_rows<0>;
        }
    }();
    copy(codes_.data, bytes_, numbers, count, gathered_.data());
    return {gathered_.data(), count, 0, numbers};
}

}  // namespace idcwh
