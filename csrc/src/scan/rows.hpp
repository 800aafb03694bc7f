// The rows that a search may return, checked and in the forms that searches use.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace idcwh {

// Throws Error(invalid_argument) unless `rows` is a valid selection of `size` rows.
void check_rows(const Rows& rows, std::size_t size);

// A test of single rows, for searches that read rows in no order, such as the candidates of a table. The rows are
// already checked. It takes constant time, or logarithmic time for a list.
class RowTest {
public:
    explicit RowTest(const Rows& rows) : rows_(rows) {}
    bool everything() const { return rows_.kind == Rows::Kind::all; }
    bool operator()(std::size_t row) const {
        switch (rows_.kind) {
            case Rows::Kind::all: return true;
            case Rows::Kind::range: return row >= rows_.begin && row < rows_.end;
            case Rows::Kind::bitmap: return rows_.bitmap[row / 64] >> (row % 64) & 1;
            case Rows::Kind::bytes: return rows_.bytes[row] != 0;
            case Rows::Kind::list: return listed(static_cast<std::int64_t>(row));
        }
        return false;
    }

private:
    bool listed(std::int64_t row) const;
    Rows rows_;
};

// The rows in one of the three forms that a scan reads: a range, a list or a bitmap.
struct RowSet {
    // Checks the rows like check_rows() and converts them.
    RowSet(const Rows& rows, std::size_t size);
    RowSet(const RowSet&) = delete;
    RowSet& operator=(const RowSet&) = delete;

    enum class Kind { range, list, bitmap } kind = Kind::range;
    std::size_t begin = 0, end = 0;  // positions: indices of the list, or else row numbers
    const std::int64_t* list = nullptr;
    const std::uint64_t* bitmap = nullptr;
    std::size_t count = 0;  // number of eligible rows

    std::size_t positions() const { return end - begin; }
    // Returns the number of eligible rows of [begin, end); begin is a multiple of 64 if there is a bitmap.
    std::size_t eligible(std::size_t begin, std::size_t end) const;

private:
    std::vector<std::uint64_t> words_;  // the bitmap, if it was made from bytes
};

// Sets bit i of words if bytes[i] is nonzero. Bits after the last byte are zero.
void pack_bytes(const std::uint8_t* bytes, std::size_t size, std::uint64_t* words);

}  // namespace idcwh
