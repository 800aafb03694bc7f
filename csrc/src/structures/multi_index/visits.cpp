// See visits.hpp.
#include "structures/multi_index/visits.hpp"

#include <cmath>

#include "structures/multi_index/bits.hpp"
#include "structures/multi_index/shells.hpp"

namespace idcwh::multi {
namespace {

constexpr double counted_shell = 64;     // shells up to this size are counted when they are planned
constexpr std::int32_t everything = 64;  // more than an entry has bits

}  // namespace

Visits::Visits(const Tables& tables, const std::vector<std::uint32_t>& values)
    : tables_(tables), values_(values), next_(values.size()), count_(values.size()) {
    for (std::size_t t = 0; t < next_.size(); ++t) {
        const auto& begins = tables.table[t].begins;
        next_[t].entries = begins[values[t] + 1] - begins[values[t]];
        estimate(next_[t]);
    }
}

void Visits::estimate(Next& next) const { next.ns = next.buckets * bucket_ns + next.entries * entry_ns; }

double Visits::counted_entries(std::size_t t) {
    const Table& table = tables_.table[t];
    Shell shell(values_[t], table.substring.width, static_cast<unsigned>(next_[t].radius));
    std::uint32_t values[static_cast<std::size_t>(counted_shell)];
    const std::size_t count = shell.next(values, std::size(values));
    counted_ += count;
    for (std::size_t i = 0; i < count; ++i) __builtin_prefetch(&table.begins[values[i]]);
    std::size_t entries = 0;
    for (std::size_t i = 0; i < count; ++i) entries += table.begins[values[i] + 1] - table.begins[values[i]];
    return static_cast<double>(entries);
}

// Near a query inside a cluster buckets are fuller. Their size falls with each shell, down to the mean.
void Visits::advance(std::size_t t) {
    Next& next = next_[t];
    const unsigned width = tables_.table[t].substring.width;
    const double density = next.entries / next.buckets;
    const double mean = std::ldexp(static_cast<double>(tables_.size), -static_cast<int>(width));
    next.buckets = choose(width, static_cast<unsigned>(++next.radius));
    next.entries = next.buckets <= counted_shell ? counted_entries(t) : next.buckets * std::max(mean, density / 16);
    estimate(next);
}

bool Visits::plan(std::size_t count) {
    while (visits_.size() < count && !all_) {
        const auto least =
            std::min_element(next_.begin(), next_.end(), [](const Next& a, const Next& b) { return a.ns < b.ns; });
        const auto t = static_cast<std::size_t>(least - next_.begin());
        visits_.push_back({static_cast<std::uint32_t>(t), least->radius, least->ns});
        if (least->radius == static_cast<std::int32_t>(tables_.table[t].substring.width))
            all_ = true;
        else
            advance(t);
    }
    return visits_.size() >= count;
}

std::int32_t Visits::entry_limit(const Visit& visit, std::int32_t limit) {
    const auto count = static_cast<std::size_t>(limit) + 1;
    if (!plan(count)) return everything;
    if (limit != limited_) {
        limited_ = limit;
        std::fill(count_.begin(), count_.end(), 0);
        for (std::size_t i = 0; i < count; ++i) ++count_[visits_[i].table];
    }
    const std::size_t next = (visit.table + 1) % count_.size();
    return count_[visit.table] + count_[next] - 1 - visit.radius;
}

double Visits::rest_ns(std::size_t visit, double made, std::int32_t limit, double enough) {
    double ns = -made * visits_[visit].ns;
    for (std::size_t i = visit; i <= static_cast<std::size_t>(limit) && ns < enough && has(i); ++i) ns += visits_[i].ns;
    return ns;
}

}  // namespace idcwh::multi
