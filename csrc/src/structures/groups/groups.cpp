// Construction and description of groups.
#include "structures/groups/groups.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "structures/groups/estimate.hpp"
#include "structures/groups/number.hpp"
#include "structures/groups/parallel.hpp"

namespace idcwh {
namespace {

constexpr std::size_t narrow_groups = std::size_t{1} << 16;
// chosen by hand: a scan of more groups takes long enough for a multi-index
constexpr std::size_t many_groups = 100000;

// Returns the row of each place. Empty if the ids ascend with the rows.
HugeArray<std::uint32_t> order_of(const std::int64_t* ids, std::size_t size, unsigned threads) {
    if (!ids || std::is_sorted(ids, ids + size)) return {};
    std::vector<std::uint32_t> rows(size);
    std::iota(rows.begin(), rows.end(), 0u);
    parallel_sort(rows, threads, [&](std::uint32_t a, std::uint32_t b) { return ids[a] < ids[b]; });
    HugeArray<std::uint32_t> order(size);
    std::copy(rows.begin(), rows.end(), order.data());
    return order;
}

std::size_t expected_memory(std::size_t rows, unsigned bits, std::size_t distinct, bool ordered) {
    const std::size_t a_group = code_bytes(bits) + sizeof(std::uint32_t) + sizeof(std::uint64_t);
    const std::size_t a_row = sizeof(Place) + (distinct <= narrow_groups ? 2 : 4) + (ordered ? 0 : 4);
    return distinct * a_group + rows * a_row + (DirectTable::suits(bits, rows) ? DirectTable::memory(bits) : 0);
}

// Compares codes as little-endian numbers.
bool less_by_value(const std::uint8_t* a, const std::uint8_t* b, std::size_t bytes) {
    for (std::size_t at = bytes; at-- > 0;)
        if (a[at] != b[at]) return a[at] < b[at];
    return false;
}

}  // namespace

std::unique_ptr<Groups> Groups::build(const Codes& codes, const std::int64_t* ids, std::size_t memory, unsigned threads,
                                      const Interrupt* interrupt) {
    if (codes.size == 0 || std::uint64_t{codes.size} >> 32) return nullptr;
    if (threads == 0) threads = pool::available_threads();
    Stop stop(interrupt);
    const DistinctEstimate estimate = estimate_distinct(codes, stop);
    const bool ordered = !ids || std::is_sorted(ids, ids + codes.size);
    if (estimate.distinct > codes.size / 2) return nullptr;
    if (expected_memory(codes.size, codes.bits, estimate.distinct, ordered) > memory) return nullptr;

    std::unique_ptr<Groups> groups(new Groups);
    groups->size_ = codes.size;
    groups->bits_ = codes.bits;
    groups->order_ = order_of(ids, codes.size, threads);
    groups->places_ = HugeArray<Place>(codes.size);
    groups->wide_ = HugeArray<std::uint32_t>(codes.size);
    Numbering numbering = number_codes(codes, groups->ordered() ? nullptr : groups->order_.data(), estimate.distinct,
                                       groups->wide_.data(), groups->places_.data(), threads, stop);
    groups->codes_ = std::move(numbering.codes);
    groups->codes_.shrink_to_fit();
    groups->offsets_.resize(numbering.sizes.size() + 1);
    std::partial_sum(numbering.sizes.begin(), numbering.sizes.end(), groups->offsets_.begin() + 1);
    groups->largest_ = *std::max_element(numbering.sizes.begin(), numbering.sizes.end());
    for (const std::uint32_t rows : numbering.sizes) {
        const double share = static_cast<double>(rows) / static_cast<double>(codes.size);
        groups->repeated_ += share * share;
    }
    groups->make_lists(threads, stop);
    if (groups->distinct() <= narrow_groups) {
        groups->narrow_ = HugeArray<std::uint16_t>(codes.size);
        std::copy_n(groups->wide_.data(), codes.size, groups->narrow_.data());
        groups->wide_ = {};
    }
    if (DirectTable::suits(codes.bits, codes.size)) groups->table_ = DirectTable::build(groups->codes());
    const std::size_t used = groups->memory();
    if (used > memory) return nullptr;
    if (!groups->table_ && groups->distinct() >= many_groups)
        groups->multi_ = MultiIndex::build(groups->codes(), memory - used, threads, interrupt);
    return groups;
}

// Sorts places by group. Each task writes a range of groups and reads all places.
void Groups::make_lists(unsigned threads, Stop& stop) {
    constexpr std::size_t portion = std::size_t{1} << 14;
    std::vector<std::uint32_t> next(offsets_.begin(), offsets_.end() - 1);
    halves_.resize(distinct());
    const std::size_t tasks = std::min(threads, 8u);
    const auto first_group = [&](std::size_t task) {
        return static_cast<Group>(std::lower_bound(offsets_.begin(), offsets_.end() - 1, size_ * task / tasks) -
                                  offsets_.begin());
    };
    pool::run(
        tasks, threads,
        [&](std::size_t task) {
            const Group begin = first_group(task), end = first_group(task + 1);
            for (std::size_t place = 0; place < size_; ++place) {
                if (place % portion == 0) stop.check();
                const Group group = wide_[place];
                if (group >= begin && group < end) places_[next[group]++] = static_cast<Place>(place);
            }
            for (Group group = begin; group < end; ++group) {
                const std::uint64_t low = static_cast<std::uint64_t>(
                    std::lower_bound(this->begin(group), this->end(group), middle()) - this->begin(group));
                halves_[group] = low | (rows(group) - low) << 32;
            }
        },
        stop.while_waiting());
}

std::size_t Groups::memory() const {
    return codes_.capacity() + offsets_.capacity() * sizeof(offsets_[0]) + halves_.capacity() * sizeof(halves_[0]) +
           places_.bytes() + narrow_.bytes() + wide_.bytes() + order_.bytes() +
           (table_ ? DirectTable::memory(bits_) : 0) + (multi_ ? multi_->memory() : 0);
}

std::string Groups::describe() const {
    return std::to_string(size_) + " codes, " + std::to_string(distinct()) + " distinct, at most " +
           std::to_string(largest_) + " equal" + (table_ ? ", addressed directly" : "") +
           (multi_ ? "; " + multi_->describe() : "");
}

Group Groups::find(const std::uint8_t* query) const {
    const std::size_t bytes = code_bytes(bits_);
    std::size_t first = 0, count = distinct();
    while (count > 0) {
        const std::size_t half = count / 2;
        if (less_by_value(&codes_[(first + half) * bytes], query, bytes))
            first += half + 1, count -= half + 1;
        else
            count = half;
    }
    const bool equal = first < distinct() && std::memcmp(&codes_[first * bytes], query, bytes) == 0;
    return equal ? static_cast<Group>(first) : none;
}

}  // namespace idcwh
