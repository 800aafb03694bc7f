// The cost limit of one search: what it has spent, and whether what remains is still cheaper than a scan.
#pragma once

#include <algorithm>
#include <cstddef>

#include "structures/cost.hpp"

namespace idcwh::multi {

class Budget {
public:
    static constexpr double probe_share = 0.05;   // of a scan, spent before the remaining cost is estimated first
    static constexpr double abandon_share = 0.5;  // of a scan: a search expected to cost more stops, for the costs of
                                                  // cost.hpp and shells.hpp may be wrong by a factor of 2

    // Args:
    //   scan_ns      the cost of a scan of the same rows
    //   most_ns      the search never spends more
    //   patience_ns  spent without an estimate of the remaining cost
    Budget(double scan_ns, double most_ns, double patience_ns = 0)
        : scan_(scan_ns),
          most_(std::min(abandon_share * scan_ns, most_ns)),
          estimate_at_(std::max(probe_share * scan_ns, patience_ns)) {}

    double spent() const { return spent_; }
    bool exhausted() const { return exhausted_; }

    // Pays for a step before it is done. Returns false, from then on, when the step costs more than is left.
    bool pay(double ns) {
        exhausted_ = exhausted_ || spent_ + ns > most_;
        if (!exhausted_) spent_ += ns;
        return !exhausted_;
    }
    bool pay(std::size_t count, double ns) { return pay(static_cast<double>(count) * ns); }

    // Returns false, from then on, when the search is not expected to end within its share of a scan. Most calls return
    // without an estimate. remaining_ns(enough) estimates the remaining cost, and may stop adding at `enough`.
    template <class Estimate>
    bool worth_it(const Estimate& remaining_ns) {
        if (exhausted_) return false;
        if (spent_ < estimate_at_) return true;
        estimate_at_ = spent_ + probe_share / 2 * scan_;
        const double share = abandon_share * scan_;
        exhausted_ = spent_ + remaining_ns(share) >= share;
        return !exhausted_;
    }

private:
    double scan_, most_, estimate_at_;
    double spent_ = cost::call_ns;
    bool exhausted_ = false;
};

}  // namespace idcwh::multi
