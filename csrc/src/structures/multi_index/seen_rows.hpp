// The rows that a search has found: a set of row numbers, for few rows or many.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace idcwh::multi {

class SeenRows {
public:
    // Returns false if the row is already in the set.
    bool insert(std::uint32_t row) {
        if (2 * size_ >= places_.size()) grow();
        if (!place(row)) return false;
        ++size_;
        return true;
    }

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};  // no row: codes are fewer than 2^32

    bool place(std::uint32_t row) {
        std::size_t at = (row * 0x9e3779b97f4a7c15u) >> shift_;
        for (; places_[at] != none; at = (at + 1) & (places_.size() - 1))
            if (places_[at] == row) return false;
        places_[at] = row;
        return true;
    }

    void grow() {
        std::vector<std::uint32_t> old(places_.empty() ? 64 : 2 * places_.size(), none);
        old.swap(places_);
        shift_ = 64 - static_cast<unsigned>(std::countr_zero(places_.size()));
        for (const std::uint32_t row : old)
            if (row != none) place(row);
    }

    std::vector<std::uint32_t> places_;
    std::size_t size_ = 0;
    unsigned shift_ = 0;
};

}  // namespace idcwh::multi
