// Cutting a range of rows into blocks; see blocks.hpp.
#include "blocks.hpp"

#include <algorithm>
#include <cstring>

namespace idcwh {

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
    gathered_.resize(max_rows * bytes_);
    while (at_ < end_ && numbers_.size() < max_rows) {
        std::uint64_t eight;
        if (at_ + 8 <= end_ && (std::memcpy(&eight, mask_ + at_, 8), eight == 0)) {
            at_ += 8;
            continue;
        }
        if (mask_[at_]) {
            std::memcpy(gathered_.data() + numbers_.size() * bytes_, codes_.data + at_ * bytes_, bytes_);
            numbers_.push_back(at_);
        }
        ++at_;
    }
    return {gathered_.data(), numbers_.size(), 0, numbers_.data()};
}

}  // namespace idcwh
