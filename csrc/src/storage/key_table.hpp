// KeyTable: the rows of each key of a record, in buckets of a hash. It takes 6 to 8 bytes per row, whatever the keys
// are, and does not contain them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/huge_array.hpp"

namespace idcwh::storage {

class KeyTable {
public:
    // Reads key(row) of every row, on up to `threads` threads. An empty key is no key. The time does not depend on how
    // often a key occurs.
    KeyTable(std::size_t rows, const std::function<std::string_view(std::size_t)>& key, unsigned threads);

    // Returns the rows that may have this key, ascending. The caller compares their keys.
    std::span<const std::uint32_t> candidates(std::string_view key) const {
        const std::uint32_t bucket = bucket_of(key);
        return {rows_.data() + begins_[bucket], rows_.data() + begins_[bucket + 1]};
    }
    std::size_t memory() const { return begins_.bytes() + rows_.bytes(); }

private:
    std::uint32_t bucket_of(std::string_view key) const {
        return static_cast<std::uint32_t>(std::hash<std::string_view>()(key)) & mask_;
    }

    std::uint32_t mask_;               // number of buckets - 1
    HugeArray<std::uint32_t> begins_;  // [buckets + 1]
    HugeArray<std::uint32_t> rows_;    // [rows with a key], sorted by bucket
};

}  // namespace idcwh::storage
