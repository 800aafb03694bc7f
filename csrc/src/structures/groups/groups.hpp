// Equal codes searched once: learned codes repeat, so a search measures the distinct ones and expands them to ids.
//
// What is kept: the distinct codes, contiguous and sorted by value; for each of them the places of its rows; for each
// place its group. A place is a position in the order of the ids, so that ascending places are ascending ids; where ids
// ascend with the rows (or are the row numbers) place and row are the same number. Immutable once built.
#pragma once

#include <idcwh/search.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/huge_array.hpp"
#include "base/interrupt.hpp"
#include "structures/multi_index/multi_index.hpp"
#include "structures/table.hpp"

namespace idcwh {

using Group = std::uint32_t;
using Place = std::uint32_t;

class Groups {
public:
    // Over all rows of codes. ids [size], or null for the row numbers: every search must be given the same ones. Null
    // when it would take more than `memory` bytes, when more than half of the codes are distinct, so that it cannot
    // pay (measured before it is built), and from 2^32 rows on. While it is built, it takes up to 4 bytes a row and 40
    // a distinct code more.
    static std::unique_ptr<Groups> build(const Codes& codes, const std::int64_t* ids, std::size_t memory,
                                         unsigned threads = 0, const Interrupt* interrupt = nullptr);

    std::size_t size() const { return size_; }  // rows
    std::size_t distinct() const { return offsets_.size() - 1; }
    std::size_t largest() const { return largest_; }
    // The mean share of the rows that equal one of them.
    double repeated() const { return repeated_; }
    std::size_t memory() const;
    std::string describe() const;

    Codes codes() const { return {codes_.data(), distinct(), bits_}; }
    // The group of the query itself, or none.
    static constexpr Group none = ~Group{0};
    Group find(const std::uint8_t* query) const;

    const Place* begin(Group group) const { return places_.data() + offsets_[group]; }
    const Place* end(Group group) const { return places_.data() + offsets_[group + 1]; }
    std::uint32_t rows(Group group) const { return offsets_[group + 1] - offsets_[group]; }

    std::size_t row(Place place) const { return ordered() ? place : order_[place]; }
    std::int64_t id(Place place, const std::int64_t* ids) const {
        const std::size_t at = row(place);
        return ids ? ids[at] : static_cast<std::int64_t>(at);
    }
    bool ordered() const { return order_.size() == 0; }  // places and rows are the same

    // Calls body with the group of each place: an array of 16 or 32 bits an entry.
    template <class Body>
    auto with_group_of(Body body) const {
        return narrow_.size() ? body(narrow_.data()) : body(wide_.data());
    }
    // How many rows each group has among the places below middle() (low half) and from there on (high half).
    const std::uint64_t* halves() const { return halves_.data(); }
    std::size_t middle() const { return size_ / 2; }

    const DirectTable* table() const { return table_.get(); }
    const MultiIndex* multi() const { return multi_.get(); }  // over the distinct codes, where they are many

private:
    Groups() = default;
    void make_lists(unsigned threads, Stop& stop);

    std::size_t size_ = 0, largest_ = 0;
    double repeated_ = 0;
    unsigned bits_ = 0;
    std::vector<std::uint8_t> codes_;
    std::vector<std::uint32_t> offsets_;  // [distinct + 1] into places_
    HugeArray<Place> places_;             // [size] by group
    HugeArray<std::uint16_t> narrow_;     // [size] group of each place, where 16 bits suffice
    HugeArray<std::uint32_t> wide_;       // [size] the same, where they do not
    HugeArray<std::uint32_t> order_;      // [size] row of each place, where the ids do not ascend
    std::vector<std::uint64_t> halves_;
    std::unique_ptr<DirectTable> table_;
    std::unique_ptr<MultiIndex> multi_;
};

}  // namespace idcwh
