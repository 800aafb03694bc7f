// Passes each candidate once, although a code may be near the query in several substrings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "structures/multi_index/bits.hpp"
#include "structures/multi_index/shells.hpp"
#include "structures/multi_index/table.hpp"

namespace idcwh::multi {

// A code counts where the search finds it first. If one of its substrings is within the radius that the search has
// finished in that substring's table, then the code was seen there. (It may have been too far at that time. It still
// is, because the limit only shrinks.)
class SeenFilter {
public:
    // substrings: of the query; must outlive the filter, as the tables must.
    SeenFilter(const Tables& tables, const std::vector<std::uint32_t>& substrings)
        : tables_(tables), substrings_(substrings) {}

    // Prepares the filter for a search of table `current` at this radius of its substring.
    void prepare(const Shells& shells, std::size_t current, int radius) {
        const Table& primary = tables_.table[0];
        in_entry_.clear();
        beyond_entry_.clear();
        for (std::size_t t = 1; t < substrings_.size(); ++t) {
            if (t != current && shells.done(t) < 0) continue;
            const Chunk chunk = tables_.table[t].chunk;
            const bool in_entry = chunk.offset + chunk.width <= primary.chunk.width + primary.entry_bits;
            (in_entry ? in_entry_ : beyond_entry_)
                .push_back({in_entry ? chunk.offset - primary.chunk.width : 0, low_mask(chunk.width),
                            static_cast<unsigned>(shells.done(t) + 1),
                            t == current ? static_cast<unsigned>(radius) : chunk.width,
                            Field(tables_.bits, chunk.offset, chunk.width), substrings_[t]});
        }
    }

    // difference: of a primary's entry and the query. Knows nothing of substrings that an entry does not contain.
    bool first_seen_here(std::uint64_t difference) const {
        for (const Check& check : in_entry_)
            if (!check.passes(ones((difference >> check.shift) & check.mask))) return false;
        return true;
    }
    // Checks the substrings that an entry does not contain, by the whole code.
    bool first_seen_here(const std::uint8_t* code) const {
        for (const Check& check : beyond_entry_)
            if (!check.passes(ones(check.field.of_code(code) ^ check.substring))) return false;
        return true;
    }

private:
    // The distances in one substring at which a code is seen for the first time.
    struct Check {
        unsigned shift;  // of the substring in an entry
        std::uint64_t mask;
        unsigned least, most;
        Field field;
        std::uint32_t substring;  // of the query

        bool passes(unsigned distance) const { return distance >= least && distance <= most; }
    };

    const Tables& tables_;
    const std::vector<std::uint32_t>& substrings_;
    std::vector<Check> in_entry_, beyond_entry_;
};

}  // namespace idcwh::multi
