// See filtered_rows.hpp.
#include "index/filtered_rows.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <string>

#include "base/fail.hpp"

namespace idcwh::detail {
namespace {

// Returns the 64 positions of `where` from `first` on as bits. Bits beyond its end are 0.
std::uint64_t positions(const Where& where, std::size_t first) {
    const std::size_t count = std::min<std::size_t>(64, where.count - first);
    std::uint64_t word = 0;
    if (where.kind == Where::Kind::bytes) {
        for (std::size_t i = 0; i < count; ++i) word |= std::uint64_t{where.bytes[first + i] != 0} << i;
        return word;
    }
    const std::size_t shift = first % 64;
    word = where.bitmap[first / 64] >> shift;
    if (shift && shift + count > 64) word |= where.bitmap[first / 64 + 1] << (64 - shift);
    return count == 64 ? word : word & ((std::uint64_t{1} << count) - 1);
}

// Puts the low bits of `bits`, in order, at the ones of `places`.
std::uint64_t deposit(std::uint64_t bits, std::uint64_t places) {
    if (places == ~std::uint64_t{0}) return bits;
    std::uint64_t out = 0;
    for (; places && bits; places &= places - 1, bits >>= 1) out |= (bits & 1) * (places & -places);
    return out;
}

// Throws unless the pointers are valid and a mask has one entry per code.
void check_where(const Where& where, std::size_t live) {
    const bool bytes = where.kind == Where::Kind::bytes, ids = where.kind == Where::Kind::ids;
    if (ids && where.count && !where.ids)
        fail({.path = "where.ids", .found = "null", .expected = std::to_string(where.count) + " ids"});
    if (!bytes && where.kind != Where::Kind::bitmap) return;
    if (where.count != live)
        fail({.path = "where",
              .found = "a mask of " + std::to_string(where.count) + " entries",
              .expected = "one per code: " + std::to_string(live)});
    if (where.count && !(bytes ? static_cast<const void*>(where.bytes) : where.bitmap))
        fail({.path = bytes ? "where.bytes" : "where.bitmap", .found = "null", .expected = "a mask"});
}

}  // namespace

FilteredView::FilteredView(const View& view, std::span<const Segment> all, const Where& where)
    : live(view.live), bits(view.bits) {
    check_where(where, view.live);
    segments.reserve(all.size());
    std::size_t position = 0;
    for (const Segment& segment : all) {
        const std::size_t count = segments.emplace_back(segment, where, position).eligible;
        if (count == 0) segments.pop_back();
        eligible += count;
        position += segment.live;
    }
}

FilteredRows::FilteredRows(const Segment& of, const Where& where, std::size_t position) : segment(&of) {
    if (of.live == 0) return;
    switch (where.kind) {
        case Where::Kind::all:
            if (of.alive) rows = Rows::of_bitmap(of.alive);
            eligible = of.live;
            return;
        case Where::Kind::ids: select_ids(where); return;
        case Where::Kind::id_range: select_id_range(where); return;
        default: select_positions(where, position);
    }
}

void FilteredRows::select_ids(const Where& where) {
    const std::int64_t *begin = where.ids, *end = where.ids + where.count;
    const bool ordered = std::adjacent_find(begin, end, std::greater_equal<>()) == end;
    if (ordered && segment->ascending) {  // other segments hold the remaining ids
        begin = std::lower_bound(begin, end, segment->id(0));
        end = std::upper_bound(begin, end, segment->id(segment->rows - 1));
        if (!segment->ids && segment->first_id == 0 && !segment->alive) {
            // Ids are rows in order, so they are read in place.
            eligible = static_cast<std::size_t>(end - begin);
            rows = Rows::of_list(begin, eligible);
            return;
        }
    }
    list_.reserve(std::min(static_cast<std::size_t>(end - begin), segment->rows));
    for (; begin != end; ++begin)
        if (const auto row = segment->row_of(*begin)) list_.push_back(static_cast<std::int64_t>(*row));
    if (!ordered || !segment->ascending) {
        std::sort(list_.begin(), list_.end());
        list_.erase(std::unique(list_.begin(), list_.end()), list_.end());
    }
    eligible = list_.size();
    rows = Rows::of_list(list_.data(), eligible);
}

void FilteredRows::select_id_range(const Where& where) {
    if (!segment->ascending) {
        words_.assign((segment->rows + 63) / 64, 0);
        for (std::size_t row = 0; row < segment->rows; ++row) {
            const std::int64_t id = segment->id(row);
            words_[row / 64] |= std::uint64_t{id >= where.first && id < where.last} << row % 64;
        }
        return use_words();
    }
    const auto row_from = [this](std::int64_t id) {
        if (segment->ids)
            return static_cast<std::size_t>(std::lower_bound(segment->ids, segment->ids + segment->rows, id) -
                                            segment->ids);
        if (id <= segment->first_id) return std::size_t{0};
        const auto row = static_cast<std::uint64_t>(id - segment->first_id);
        return static_cast<std::size_t>(std::min<std::uint64_t>(segment->rows, row));
    };
    const std::size_t begin = row_from(where.first), end = std::max(begin, row_from(where.last));
    if (!segment->alive) {
        rows = Rows::range(begin, end);
        eligible = end - begin;
        return;
    }
    if (begin == end) return;
    words_.assign((segment->rows + 63) / 64, 0);
    for (std::size_t row = begin; row < end; row = (row / 64 + 1) * 64) {
        const std::size_t stop = std::min(end, (row / 64 + 1) * 64), count = stop - row;
        words_[row / 64] |= (~std::uint64_t{0} >> (64 - count)) << row % 64;
    }
    use_words();
}

void FilteredRows::select_positions(const Where& where, std::size_t position) {
    const bool bytes = where.kind == Where::Kind::bytes;
    if (!segment->alive && (bytes || position % 64 == 0)) {
        rows = bytes ? Rows::of_bytes(where.bytes + position) : Rows::of_bitmap(where.bitmap + position / 64);
        SearchOptions options;
        options.rows = rows;
        eligible = idcwh::eligible(segment->view(), options);
        return;
    }
    words_.assign((segment->rows + 63) / 64, 0);
    for (std::size_t w = 0; w < words_.size() && position < where.count; ++w) {
        const std::size_t left = segment->rows - 64 * w;
        std::uint64_t places = left < 64 ? (std::uint64_t{1} << left) - 1 : ~std::uint64_t{0};
        if (segment->alive) places &= segment->alive[w];
        if (!places) continue;
        words_[w] = deposit(positions(where, position), places);
        position += static_cast<std::size_t>(std::popcount(places));
    }
    use_words();
}

void FilteredRows::use_words() {
    for (std::size_t w = 0; w < words_.size(); ++w) {
        if (segment->alive) words_[w] &= segment->alive[w];
        eligible += static_cast<std::size_t>(std::popcount(words_[w]));
    }
    rows = Rows::of_bitmap(words_.data());
}

Rows FilteredRows::behind(std::size_t first) {
    const std::size_t end = segment->rows;
    switch (rows.kind) {
        case Rows::Kind::all: return rows;
        case Rows::Kind::range:
            return Rows::range(std::max(rows.begin, first) - first, std::max(rows.end, first) - first);
        case Rows::Kind::bytes: return Rows::of_bytes(rows.bytes + first);
        case Rows::Kind::list: {
            const auto from = std::lower_bound(rows.list, rows.list + rows.count, static_cast<std::int64_t>(first));
            list_behind_.assign(from, rows.list + rows.count);
            for (auto& row : list_behind_) row -= static_cast<std::int64_t>(first);
            return Rows::of_list(list_behind_.data(), list_behind_.size());
        }
        case Rows::Kind::bitmap: break;
    }
    if (first % 64 == 0) return Rows::of_bitmap(rows.bitmap + first / 64);
    words_behind_.resize((end - first + 63) / 64);
    const std::size_t last = (end + 63) / 64;
    for (std::size_t w = 0; w < words_behind_.size(); ++w) {
        const std::size_t at = first / 64 + w;
        words_behind_[w] = rows.bitmap[at] >> first % 64;
        if (at + 1 < last) words_behind_[w] |= rows.bitmap[at + 1] << (64 - first % 64);
    }
    return Rows::of_bitmap(words_behind_.data());
}

}  // namespace idcwh::detail
