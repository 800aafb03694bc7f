// The work that one search may spend, in the nanoseconds of structures/cost.hpp.
#pragma once

#include <algorithm>
#include <cstddef>

#include "structures/cost.hpp"

namespace idcwh::multi {

// A search never costs more than most_ns. It stops earlier if the estimated cost of the rest exceeds that of a scan.
struct CostLimits {
    double scan_ns;          // cost of a scan of the same rows
    double most_ns;          // upper bound of the search's cost
    double patience_ns = 0;  // cost before the first estimate of the rest
};

class Budget {
public:
    explicit Budget(const CostLimits& limits)
        : scan_(limits.scan_ns),
          most_(std::min(abandon_share * limits.scan_ns, limits.most_ns)),
          estimate_at_(std::max(probe_share * limits.scan_ns, limits.patience_ns)) {}

    // Adds the cost of the next step. Returns false if it exceeds the budget; the search then has to stop.
    bool pay(double ns) {
        gave_up_ = gave_up_ || spent_ + ns > most_;
        if (!gave_up_) spent_ += ns;
        return !gave_up_;
    }
    bool pay(std::size_t count, double ns) { return pay(static_cast<double>(count) * ns); }

    // Returns false, and gives up, when the rest of the search looks more expensive than a scan.
    // rest_ns(enough): the estimated cost of the rest, not added up beyond `enough`. It is called from time to time.
    template <class Rest>
    bool worth_it(const Rest& rest_ns) {
        if (gave_up_) return false;
        if (spent_ < estimate_at_) return true;
        estimate_at_ = spent_ + probe_share / 2 * scan_;
        gave_up_ = spent_ + rest_ns(abandon_share * scan_) >= abandon_share * scan_;
        return !gave_up_;
    }

    bool gave_up() const { return gave_up_; }
    double spent() const { return spent_; }

private:
    static constexpr double probe_share = 0.05;   // share of a scan, spent before the first estimate
    static constexpr double abandon_share = 0.5;  // share of a scan; the estimates may be wrong by a factor of 2

    const double scan_, most_;
    double estimate_at_, spent_ = cost::call_ns;
    bool gave_up_ = false;
};

}  // namespace idcwh::multi
