// See shells.hpp.
#include "structures/multi_index/shells.hpp"

#include <algorithm>
#include <cmath>

namespace idcwh::multi {
namespace {

constexpr double counted_buckets = 400;  // shells up to this size are counted before one is chosen

// Returns the share of all values of `width` bits that are within `radius` of one.
double share_within(unsigned width, int radius) {
    double sum = 0;
    for (int d = 0; d <= std::min<int>(radius, static_cast<int>(width)); ++d)
        sum += choose(width, static_cast<unsigned>(d));
    return std::ldexp(sum, -static_cast<int>(width));
}

}  // namespace

Shells::Shells(const Tables& tables, const std::uint32_t* values) : tables_(tables), state_(tables.table.size()) {
    for (std::size_t t = 0; t < state_.size(); ++t) {
        const Table& table = tables.table[t];
        state_[t].value = values[t];
        state_[t].density = table.begins[values[t] + 1] - table.begins[values[t]];
        state_[t].entries = state_[t].density;
    }
}

// Returns the expected entries per bucket. Near a query inside a cluster buckets are fuller: density falls with each
// shell, down to the mean.
double Shells::density(std::size_t t, double known, int shells_further) const {
    const double mean =
        std::ldexp(static_cast<double>(tables_.size), -static_cast<int>(tables_.table[t].substring.width));
    return std::max(mean, std::ldexp(known, -4 * shells_further));
}

double Shells::cost(std::size_t t, int shell, double entries, std::int32_t limit) const {
    const double buckets = choose(tables_.table[t].substring.width, static_cast<unsigned>(shell));
    double ns = buckets * bucket_ns + entries * entry_ns;
    if (t) {
        const unsigned width = tables_.table[0].substring.width;
        const int within = limit - shell - elsewhere(t);
        const double share = share_within(width, within) - share_within(width, state_[0].done);
        ns += std::max(share, 0.0) * entries * lookup_ns;
    }
    return ns;
}

void Shells::count_next(std::size_t t) {
    State& state = state_[t];
    const Table& table = tables_.table[t];
    Shell shell(state.value, table.substring.width, static_cast<unsigned>(state.done + 1));
    std::uint32_t values[512];
    std::size_t entries = 0;
    const std::size_t count = shell.next(values, 512);
    counted_ += count;
    for (std::size_t i = 0; i < count; ++i) __builtin_prefetch(&table.begins[values[i]]);
    for (std::size_t i = 0; i < count; ++i) entries += table.begins[values[i] + 1] - table.begins[values[i]];
    state.entries = static_cast<double>(entries);
}

std::size_t Shells::cheapest(std::int32_t limit) {
    for (;;) {
        std::size_t best = 0;
        double least = 0;
        bool counted = false;
        for (std::size_t t = 0; t < state_.size(); ++t) {
            const int shell = state_[t].done + 1;
            const double buckets = choose(tables_.table[t].substring.width, static_cast<unsigned>(shell));
            const bool known = state_[t].entries >= 0 || buckets > counted_buckets;
            // An uncounted shell looks cheap until it has been counted.
            const double entries = state_[t].entries >= 0 ? state_[t].entries
                                   : known                ? buckets * density(t, state_[t].density, 1)
                                                          : 0;
            const double ns = cost(t, shell, entries, limit);
            if (t == 0 || ns < least) best = t, least = ns, counted = known;
        }
        if (counted) return best;
        count_next(best);
    }
}

void Shells::finish(std::size_t t, std::size_t entries) {
    State& state = state_[t];
    ++state.done;
    ++covered_;
    const unsigned width = tables_.table[t].substring.width;
    state.density = static_cast<double>(entries) / choose(width, static_cast<unsigned>(state.done));
    state.entries = -1;
    if (state.done == static_cast<int>(width)) all_seen_ = true;
}

double Shells::rest_ns(std::int32_t limit, std::size_t t, double partly, double enough) const {
    const auto next_cost = [&](std::size_t i, int further) {
        const State& state = state_[i];
        const int shell = state.done + 1 + further;
        const double entries = further == 0 && state.entries >= 0
                                   ? state.entries
                                   : choose(tables_.table[i].substring.width, static_cast<unsigned>(shell)) *
                                         density(i, state.density, 1 + further);
        return cost(i, shell, entries, limit);
    };
    const std::size_t count = state_.size();
    std::vector<int> further(count);
    std::vector<double> next(count);
    for (std::size_t i = 0; i < count; ++i) next[i] = next_cost(i, 0);
    double ns = next[t] * (1 - partly);
    next[t] = next_cost(t, ++further[t]);
    for (int covered = covered_ + 1; covered <= limit && ns < enough; ++covered) {
        const auto best = static_cast<std::size_t>(std::min_element(next.begin(), next.end()) - next.begin());
        if (state_[best].done + 1 + further[best] > static_cast<int>(tables_.table[best].substring.width)) break;
        ns += next[best];
        next[best] = next_cost(best, ++further[best]);
    }
    return ns;
}

}  // namespace idcwh::multi
