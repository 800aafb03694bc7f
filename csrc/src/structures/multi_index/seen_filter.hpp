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
        checks_.reserve(values.size());  // a search of a few buckets takes no longer than a few allocations
    }

    // Prepares for the candidates of the shell of `radius` in `table`.
    void prepare_checks(const Shells& shells, std::size_t table, int radius) {
        checks_.clear();
        const Table& primary = tables_.table[0];
        for (std::size_t t = 1; t < values_.size(); ++t) {
            if (t != table && shells.done(t) < 0) continue;
            const Substring substring = tables_.table[t].substring;
            checks_.push_back({substring.offset - primary.substring.width, low_mask(substring.width),
                               static_cast<unsigned>(shells.done(t) + 1),
                               t == table ? static_cast<unsigned>(radius) : substring.width});
        }
    }

    // True when no finished shell contains the code.
    // difference: the code's entry of the primary XOR the query's.
    bool first_seen_here(std::uint64_t difference) const {
        for (const Check& check : checks_) {
            const unsigned distance = ones((difference >> check.shift) & check.mask);
            if (distance < check.least || distance > check.most) return false;
        }
        return true;
    }
    bool no_checks() const { return checks_.empty(); }

private:
    // An unseen code's distance in one substring is at least `least`. In the shell's own substring it is at most the
    // shell's radius: an entry of the primary may belong to a wider shell, which is visited later.
    struct Check {
        unsigned shift;
        std::uint64_t mask;
        unsigned least, most;
    };

    const Tables& tables_;
    const std::vector<std::uint32_t>& values_;
    std::vector<Check> checks_;
};

}  // namespace idcwh::multi
