// Adaptive sampling (Wegman; Flajolet 1990) keeps the codes whose hash ends in `level` zero bits, and raises the level
// when there are too many. It samples values, not rows, so one frequent value does not mislead it.
#include "structures/groups/estimate.hpp"

#include <algorithm>
#include <vector>

#include "structures/groups/hash.hpp"

namespace idcwh {
namespace {

class Sample {
public:
    void add(std::uint64_t hash) {
        if ((hash & low_bits()) || !insert(hash | top_bit)) return;
        while (count_ > capacity) thin();
    }
    DistinctEstimate estimate() const { return {count_ << level_, level_ == 0}; }

private:
    static constexpr std::size_t capacity = std::size_t{1} << 15, slots = 4 * capacity;
    static constexpr std::uint64_t top_bit = std::uint64_t{1} << 63;  // set in every used slot

    std::uint64_t low_bits() const { return (std::uint64_t{1} << level_) - 1; }
    bool insert(std::uint64_t hash) {
        std::size_t at = hash >> 40 & (slots - 1);
        while (slots_[at] != 0 && slots_[at] != hash) at = (at + 1) % slots;
        if (slots_[at] == hash) return false;
        slots_[at] = hash;
        ++count_;
        return true;
    }
    void thin() {
        ++level_;
        std::vector<std::uint64_t> before(slots);
        before.swap(slots_);
        count_ = 0;
        for (const std::uint64_t hash : before)
            if (hash != 0 && (hash & low_bits()) == 0) insert(hash);
    }

    unsigned level_ = 0;
    std::size_t count_ = 0;
    std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(slots);
};

}  // namespace

DistinctEstimate estimate_distinct(const Codes& codes, Stop& stop) {
    const std::size_t bytes = code_bytes(codes.bits);
    constexpr std::size_t portion = std::size_t{1} << 16;  // rows between two checks for an interrupt
    Sample sample;
    for (std::size_t row = 0; row < codes.size;) {
        stop.check();
        const std::size_t end = std::min(codes.size, row + portion);
        with_width(bytes, [&](auto width) {
            for (std::size_t at = row; at < end; ++at) sample.add(hash_code(codes.data + at * width, width));
        });
        row = end;
    }
    return sample.estimate();
}

}  // namespace idcwh
