// See expand.hpp.
#include "structures/groups/expand.hpp"

#include <algorithm>
#include <bit>

namespace idcwh {
namespace {

constexpr std::size_t heap_share = 4;  // above 1 wanted row in 4, sorting all rows is expected to be faster than a heap

// Sorts places below 2^digits, by radix if that is faster.
void sort_places(std::vector<Place>& places, std::vector<Place>& spare, int digits) {
    constexpr std::size_t few = 256;  // chosen by hand: below, std::sort is faster
    constexpr int digit = 11;
    if (places.size() < few) return std::sort(places.begin(), places.end());
    spare.resize(places.size());
    for (int shift = 0; shift < digits; shift += digit) {
        const auto bucket = [&](Place place) { return place >> shift & ((1u << digit) - 1); };
        std::uint32_t begins[(1u << digit) + 1] = {};
        for (const Place place : places) ++begins[bucket(place) + 1];
        for (std::size_t i = 1; i <= 1u << digit; ++i) begins[i] += begins[i - 1];
        for (const Place place : places) spare[begins[bucket(place)]++] = place;
        places.swap(spare);
    }
}

}  // namespace

// Fills hits_ and begins_. The hits at distance d are [begins_[d], begins_[d + 1]).
void Expander::by_distance(const std::vector<GroupHit>& hits) {
    std::int32_t last = 0;
    for (const GroupHit& hit : hits) last = std::max(last, hit.distance);
    begins_.assign(static_cast<std::size_t>(last) + 3, 0);
    for (const GroupHit& hit : hits) ++begins_[static_cast<std::size_t>(hit.distance) + 2];
    for (std::size_t d = 2; d < begins_.size(); ++d) begins_[d] += begins_[d - 1];
    hits_.resize(hits.size());
    for (const GroupHit& hit : hits) hits_[begins_[static_cast<std::size_t>(hit.distance) + 1]++] = hit;
}

void Expander::put(Place place) { *out_++ = selected_.groups().id(place, ids_); }

void Expander::put_first(Group group, std::size_t take) {
    const Place* const first = selected_.begin(group);
    std::for_each(first, first + take, [&](Place place) { put(place); });
}

void Expander::put_sorted(const GroupHit* begin, const GroupHit* end, std::size_t take) {
    places_.clear();
    for (const GroupHit* hit = begin; hit != end; ++hit)
        places_.insert(places_.end(), selected_.begin(hit->group), selected_.end(hit->group));
    sort_places(places_, spare_, std::bit_width(selected_.groups().size()));
    for (std::size_t i = 0; i < take; ++i) put(places_[i]);
}

// Writes the `take` lowest places, from a heap of groups ordered by their lowest place left.
void Expander::put_lowest(const GroupHit* begin, const GroupHit* end, std::size_t take) {
    const auto later = [](const Run& a, const Run& b) { return a.at > b.at; };
    const auto advance = [&](Run& run) {
        if (run.next == run.end) return false;
        run.at = *run.next++;
        return true;
    };
    runs_.clear();
    for (const GroupHit* hit = begin; hit != end; ++hit) {
        Run run{0, selected_.begin(hit->group), selected_.end(hit->group)};
        if (advance(run)) runs_.push_back(run);
    }
    std::make_heap(runs_.begin(), runs_.end(), later);
    for (; take > 0; --take) {
        std::pop_heap(runs_.begin(), runs_.end(), later);
        put(runs_.back().at);
        if (advance(runs_.back()))
            std::push_heap(runs_.begin(), runs_.end(), later);
        else
            runs_.pop_back();
    }
}

void Expander::expand(const std::vector<GroupHit>& hits, std::size_t take, std::int32_t* distances, std::int64_t* ids) {
    by_distance(hits);
    out_ = ids;
    std::int64_t* const all = ids + take;
    for (std::size_t d = 0; out_ != all; ++d) {
        const GroupHit *begin = hits_.data() + begins_[d], *end = hits_.data() + begins_[d + 1];
        std::size_t rows = 0;
        for (const GroupHit* hit = begin; hit != end; ++hit) rows += selected_.rows(hit->group);
        const std::size_t left = static_cast<std::size_t>(all - out_), wanted = std::min(rows, left);
        if (begin == end) continue;
        if (end - begin == 1)
            put_first(begin->group, wanted);
        else if (wanted > rows / heap_share)
            put_sorted(begin, end, wanted);
        else
            put_lowest(begin, end, wanted);
        distances = std::fill_n(distances, wanted, static_cast<std::int32_t>(d));
    }
}

}  // namespace idcwh
