// The filter of candidates that an earlier shell has led to.
//
// A code may be near in several substrings. It is reported only in the first shell that contains it: a code inside a
// shell that another table has finished was a candidate then. It may have been outside the limit at that time. It still
// is, because the limit only shrinks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "structures/multi_index/bits.hpp"
#include "structures/multi_index/shells.hpp"
#include "structures/multi_index/table.hpp"

namespace idcwh::multi {

class SeenFilter {
public:
    // values: the query's substrings.
    SeenFilter(const Tables& tables, const std::vector<std::uint32_t>& values) : tables_(tables), values_(values) {
        near_.reserve(values.size());  // a search of a few buckets takes no longer than a few allocations
    }

    // Prepares for the candidates of the shell of `radius` in `table`.
    void prepare_checks(const Shells& shells, std::size_t table, int radius) {
        near_.clear();
        far_.clear();
        const Table& primary = tables_.table[0];
        for (std::size_t t = 1; t < values_.size(); ++t) {
            if (t != table && shells.done(t) < 0) continue;
            const Substring substring = tables_.table[t].substring;
            const bool near = substring.offset + substring.width <= primary.substring.width + primary.entry_bits;
            (near ? near_ : far_)
                .push_back({near ? substring.offset - primary.substring.width : 0, low_mask(substring.width),
                            static_cast<unsigned>(shells.done(t) + 1),
                            t == table ? static_cast<unsigned>(radius) : substring.width,
                            Field(tables_.bits, substring.offset, substring.width), values_[t]});
        }
    }

    // True when no finished shell contains the code, as far as an entry of the primary shows.
    // difference: the entry XOR the query's.
    bool first_seen_here(std::uint64_t difference) const {
        for (const Check& check : near_) {
            const unsigned distance = ones((difference >> check.shift) & check.mask);
            if (distance < check.least || distance > check.most) return false;
        }
        return true;
    }
    bool no_checks() const { return near_.empty(); }

    // The same for the substrings behind bit 64, from the whole code.
    bool first_seen_here_far(const std::uint8_t* code) const {
        for (const Check& check : far_) {
            const unsigned distance = ones(check.field.of_code(code) ^ check.value);
            if (distance < check.least || distance > check.most) return false;
        }
        return true;
    }

private:
    // An unseen code's distance in one substring is at least `least`. In the shell's own substring it is at most the
    // shell's radius: an entry of the primary may belong to a wider shell, which is visited later.
    struct Check {
        unsigned shift;
        std::uint64_t mask;
        unsigned least, most;
        Field field;
        std::uint32_t value;
    };

    const Tables& tables_;
    const std::vector<std::uint32_t>& values_;
    std::vector<Check> near_, far_;  // near: inside an entry of the primary
};

}  // namespace idcwh::multi
