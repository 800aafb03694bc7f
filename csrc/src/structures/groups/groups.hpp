// Equal codes searched once: a search measures the distinct codes and expands them to ids. Learned codes repeat often.
// A place is a position in the order of the ids, so ascending places are ascending ids. Place and row are equal if ids
// ascend with the rows. Groups store the distinct codes sorted by value, the places of each code, and the group of each
// place. They are immutable once built.
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
    // Builds groups over all rows of codes. ids [size], or null for row numbers; every search must pass the same ids.
    // Returns null if groups would exceed `memory` bytes, if more than half of the codes are distinct, and from 2^32
    // rows on. The number of distinct codes is estimated first. During the build, groups use up to 4 more bytes per row
    // and 40 per distinct code.
    static std::unique_ptr<Groups> build(const Codes& codes, const std::int64_t* ids, std::size_t memory,
                                         unsigned threads = 0, const Interrupt* interrupt = nullptr);

    std::size_t size() const { return size_; }  // rows
    std::size_t distinct() const { return offsets_.size() - 1; }
    std::size_t largest() const { return largest_; }
    // Returns the mean share of the rows that equal one of them.
    double repeated() const { return repeated_; }
    std::size_t memory() const;
    std::string describe() const;

    Codes codes() const { return {codes_.data(), distinct(), bits_}; }
    // The result of find() for a query without a group.
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
    bool ordered() const { return order_.size() == 0; }  // places and rows are equal

    // Calls body with the group of each place, an array of 16-bit or 32-bit entries.
    template <class Body>
    auto with_group_of(Body body) const {
        return narrow_.size() ? body(narrow_.data()) : body(wide_.data());
    }
    // Returns the rows per group: those below middle() in the low half of a word, the others in the high half.
    const std::uint64_t* halves() const { return halves_.data(); }
    std::size_t middle() const { return size_ / 2; }

    const DirectTable* table() const { return table_.get(); }
    const MultiIndex* multi() const { return multi_.get(); }  // over the distinct codes; null if these are few

private:
    Groups() = default;
    void make_lists(unsigned threads, Stop& stop);

    std::size_t size_ = 0, largest_ = 0;
    double repeated_ = 0;
    unsigned bits_ = 0;
    std::vector<std::uint8_t> codes_;
    std::vector<std::uint32_t> offsets_;  // [distinct + 1] into places_
    HugeArray<Place> places_;             // [size] by group
    HugeArray<std::uint16_t> narrow_;     // [size] group of each place, if 16 bits suffice
    HugeArray<std::uint32_t> wide_;       // [size] the same, if they do not
    HugeArray<std::uint32_t> order_;      // [size] row of each place, if the ids do not ascend
    std::vector<std::uint64_t> halves_;
    std::unique_ptr<DirectTable> table_;
    std::unique_ptr<MultiIndex> multi_;
};

}  // namespace idcwh
