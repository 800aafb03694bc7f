// See rows.hpp.
#include "scan/rows.hpp"

#include <algorithm>
#include <string>

#include "base/fail.hpp"
#include "cpu/dispatch.hpp"

namespace idcwh {
namespace {

void check_list(const std::int64_t* list, std::size_t count, std::size_t size) {
    if (count && !list) fail({.path = "rows.list", .found = "null", .expected = std::to_string(count) + " rows"});
    if (count == 0) return;
    if (count > size)
        fail({.path = "rows.count",
              .found = std::to_string(count),
              .expected = "at most " + std::to_string(size) + ", the number of codes"});
    std::size_t at = 1;
    while (at < count) {  // checks portions without a branch per row, because a list may have millions of rows
        const std::size_t stop = std::min(count, at + 1024);
        bool ascending = true;
        for (std::size_t i = at; i < stop; ++i) ascending &= list[i - 1] < list[i];
        if (!ascending) break;
        at = stop;
    }
    for (; at < count; ++at)
        if (list[at - 1] >= list[at])
            fail({.path = "rows.list",
                  .found = "entry " + std::to_string(at) + " is " + std::to_string(list[at]) + " after " +
                           std::to_string(list[at - 1]),
                  .expected = "ascending unique rows"});
    for (const std::int64_t row : {list[0], list[count - 1]})
        if (row < 0 || static_cast<std::uint64_t>(row) >= size)
            fail({.path = "rows.list",
                  .found = "row " + std::to_string(row),
                  .expected = "0 to " + std::to_string(size - 1)});
}

// Returns the number of set bits among the first `size`.
std::size_t count_bits(const std::uint64_t* words, std::size_t size) {
    std::size_t count = active_kernels().count_bits(words, size / 64);
    const std::uint64_t rest = size % 64 ? words[size / 64] & ((std::uint64_t{1} << size % 64) - 1) : 0;
    return count + active_kernels().count_bits(&rest, 1);
}

}  // namespace

void check_rows(const Rows& rows, std::size_t size) {
    switch (rows.kind) {
        case Rows::Kind::all: return;
        case Rows::Kind::range:
            if (rows.begin > rows.end)
                fail({.path = "rows.begin and rows.end",
                      .found = std::to_string(rows.begin) + " and " + std::to_string(rows.end),
                      .expected = "begin <= end"});
            return;
        case Rows::Kind::list: return check_list(rows.list, rows.count, size);
        case Rows::Kind::bitmap:
            if (size && !rows.bitmap)
                fail({.path = "rows.bitmap", .found = "null", .expected = std::to_string(size) + " bits"});
            return;
        case Rows::Kind::bytes:
            if (size && !rows.bytes)
                fail({.path = "rows.bytes", .found = "null", .expected = std::to_string(size) + " bytes"});
            return;
    }
    fail({.path = "rows.kind", .found = std::to_string(static_cast<int>(rows.kind)), .expected = "0 to 4"});
}

bool RowTest::listed(std::int64_t row) const { return std::binary_search(rows_.list, rows_.list + rows_.count, row); }

void pack_bytes(const std::uint8_t* bytes, std::size_t size, std::uint64_t* words) {
    active_kernels().pack_bytes(bytes, size / 64, words);
    if (size % 64 == 0) return;
    std::uint8_t rest[64] = {};
    std::copy_n(bytes + size / 64 * 64, size % 64, rest);
    active_kernels().pack_bytes(rest, 1, words + size / 64);
}

RowSet::RowSet(const Rows& rows, std::size_t size) {
    check_rows(rows, size);
    end = size;
    switch (rows.kind) {
        case Rows::Kind::all: count = size; return;
        case Rows::Kind::range:
            begin = std::min(rows.begin, size);
            end = std::min(rows.end, size);
            count = end - begin;
            return;
        case Rows::Kind::list:
            kind = Kind::list;
            list = rows.list;
            count = end = rows.count;
            return;
        case Rows::Kind::bitmap: bitmap = rows.bitmap; break;
        case Rows::Kind::bytes:
            words_.resize((size + 63) / 64);
            pack_bytes(rows.bytes, size, words_.data());
            bitmap = words_.data();
            break;
    }
    count = count_bits(bitmap, size);
    if (count == size) return;  // all rows, which remain a range
    kind = Kind::bitmap;
    if (count == 0) end = 0;
}

std::size_t RowSet::eligible(std::size_t from, std::size_t to) const {
    return kind == Kind::bitmap ? count_bits(bitmap + from / 64, to - from) : to - from;
}

std::size_t eligible(const Codes& codes, const SearchOptions& options) {
    if (options.rows.kind != Rows::Kind::bytes) return RowSet(options.rows, codes.size).count;
    check_rows(options.rows, codes.size);
    std::size_t count = 0;
    constexpr std::size_t portion = 4096;
    std::uint64_t words[portion / 64];
    for (std::size_t at = 0; at < codes.size; at += portion) {
        const std::size_t size = std::min(portion, codes.size - at);
        pack_bytes(options.rows.bytes + at, size, words);
        count += count_bits(words, size);
    }
    return count;
}

}  // namespace idcwh
