// Each task numbers the codes of its places in a hash table. The tasks' lists of distinct codes are then merged, sorted
// by value.
// If few codes are distinct, a task is a range of places, and a code is in many lists. Otherwise a task is the places
// whose hash has the same top bits. Its table then still fits the cache, and a code is in one list only.
#include "structures/groups/number.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/pool.hpp"
#include "structures/groups/hash.hpp"
#include "structures/groups/parallel.hpp"

namespace idcwh {
namespace {

constexpr std::size_t cached_codes = std::size_t{1} << 14;  // codes whose hash table fits the second-level cache
constexpr std::size_t most_parts = 4096;
constexpr std::size_t ahead = 16;                          // places between a prefetch and its use
constexpr std::size_t portion = std::size_t{1} << 14;      // places between two checks for an interrupt
constexpr std::size_t least_range = std::size_t{1} << 16;  // places per task

// The distinct codes of a task, numbered in the order of first occurrence.
struct Found {
    std::vector<std::uint8_t> codes;
    std::vector<std::uint32_t> sizes;
    std::vector<std::uint32_t> group;  // number of each code among all
};

template <class Width>
class HashTable {
public:
    HashTable(Width bytes, Found& found) : bytes_(bytes), found_(found), slots_(256) {}

    std::uint32_t number(const std::uint8_t* code, std::uint64_t hash) {
        const auto tag = static_cast<std::uint32_t>(hash);  // the upper half chooses the part
        for (std::size_t at = tag & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
            Slot& slot = slots_[at];
            if (slot.number == free_slot) return add(slot, code, tag);
            if (slot.tag == tag && std::memcmp(&found_.codes[slot.number * bytes_], code, bytes_) == 0) {
                ++found_.sizes[slot.number];
                return slot.number;
            }
        }
    }

private:
    static constexpr std::uint32_t free_slot = ~std::uint32_t{0};
    struct Slot {
        std::uint32_t tag = 0, number = free_slot;
    };

    std::uint32_t add(Slot& slot, const std::uint8_t* code, std::uint32_t tag) {
        const auto number = static_cast<std::uint32_t>(found_.sizes.size());
        slot = {tag, number};
        found_.codes.insert(found_.codes.end(), code, code + bytes_);
        found_.sizes.push_back(1);
        if (2 * found_.sizes.size() > slots_.size()) grow();
        return number;
    }
    void grow() {
        std::vector<Slot> before(2 * slots_.size());
        before.swap(slots_);
        for (const Slot& slot : before) {
            if (slot.number == free_slot) continue;
            std::size_t at = slot.tag & (slots_.size() - 1);
            while (slots_[at].number != free_slot) at = (at + 1) & (slots_.size() - 1);
            slots_[at] = slot;
        }
    }

    const Width bytes_;
    Found& found_;
    std::vector<Slot> slots_;
};

// The places of each task: places[begin .. end), or the range itself if places is null.
struct Tasks {
    const std::uint32_t* places = nullptr;
    std::vector<std::size_t> begins;
    std::size_t count() const { return begins.size() - 1; }
    std::size_t place(std::size_t at) const { return places ? places[at] : at; }
};

struct Numberer {
    const Codes& codes;
    const std::uint32_t* order;
    unsigned threads;
    Stop& stop;

    const std::uint8_t* code(std::size_t place) const {
        return codes.data + (order ? order[place] : place) * code_bytes(codes.bits);
    }

    Tasks ranges() const {
        Tasks tasks;
        const std::size_t most = std::max<std::size_t>(1, codes.size / least_range);
        const std::size_t count = std::min<std::size_t>(threads == 1 ? 1 : 2 * threads, most);
        for (std::size_t i = 0; i <= count; ++i) tasks.begins.push_back(codes.size * i / count);
        return tasks;
    }

    // Sorts the places by the top bits of their codes' hashes, into `places`.
    Tasks parts(std::size_t count, std::uint32_t* places) const {
        const int shift = 64 - std::countr_zero(count);
        const std::size_t bytes = code_bytes(codes.bits), chunks = threads;
        std::vector<std::size_t> next(chunks * count);
        const auto each = [&](bool put) {
            pool::run(
                chunks, threads,
                [&](std::size_t chunk) {
                    std::size_t* const mine = &next[chunk * count];
                    const std::size_t end = codes.size * (chunk + 1) / chunks;
                    for (std::size_t from = codes.size * chunk / chunks; from < end; from += portion) {
                        stop.check();
                        with_width(bytes, [&](auto width) {
                            for (std::size_t place = from; place < std::min(end, from + portion); ++place) {
                                if (order && place + ahead < end) __builtin_prefetch(code(place + ahead));
                                std::size_t& at = mine[hash_code(code(place), width) >> shift];
                                if (put) places[at] = static_cast<std::uint32_t>(place);
                                ++at;
                            }
                        });
                    }
                },
                stop.while_waiting());
        };
        each(false);
        Tasks tasks{places, {}};
        std::size_t at = 0;
        for (std::size_t part = 0; part < count; ++part) {
            tasks.begins.push_back(at);
            for (std::size_t chunk = 0; chunk < chunks; ++chunk) at += std::exchange(next[chunk * count + part], at);
        }
        tasks.begins.push_back(at);
        each(true);
        return tasks;
    }

    // Numbers the codes of each task separately.
    std::vector<Found> find(const Tasks& tasks, std::uint32_t* number_of) const {
        std::vector<Found> found(tasks.count());
        pool::run(
            tasks.count(), threads,
            [&](std::size_t task) {
                with_width(code_bytes(codes.bits), [&](auto width) {
                    HashTable<decltype(width)> table(width, found[task]);
                    const std::size_t end = tasks.begins[task + 1];
                    for (std::size_t at = tasks.begins[task]; at < end; ++at) {
                        if (at % portion == 0) stop.check();
                        if ((order || tasks.places) && at + ahead < end)
                            __builtin_prefetch(code(tasks.place(at + ahead)));
                        const std::size_t place = tasks.place(at);
                        number_of[place] = table.number(code(place), hash_code(code(place), width));
                    }
                });
            },
            stop.while_waiting());
        return found;
    }
};

// A code of a task's list, to be sorted by value.
struct Record {
    std::uint64_t top;  // the most significant 8 bytes
    std::uint32_t task, number;
};

// Numbers the codes of all lists by value, and collects them in that order.
Numbering merge(std::vector<Found>& found, std::size_t bytes, unsigned threads) {
    const std::size_t low = bytes - std::min<std::size_t>(bytes, 8);  // bytes that do not fit Record::top
    const auto code = [&](const Record& record) { return &found[record.task].codes[record.number * bytes]; };
    std::size_t total = 0;
    for (Found& list : found) {
        list.group.resize(list.sizes.size());
        total += list.sizes.size();
    }
    std::vector<Record> records;
    records.reserve(total);
    for (std::size_t task = 0; task < found.size(); ++task)
        for (std::size_t number = 0; number < found[task].sizes.size(); ++number)
            records.push_back({load_word(&found[task].codes[number * bytes + low], bytes - low),
                               static_cast<std::uint32_t>(task), static_cast<std::uint32_t>(number)});
    parallel_sort(records, threads, [&](const Record& a, const Record& b) {
        if (a.top != b.top || low == 0) return a.top < b.top;
        const std::uint8_t *x = code(a), *y = code(b);
        for (std::size_t at = low; at-- > 0;)
            if (x[at] != y[at]) return x[at] < y[at];
        return false;
    });

    Numbering numbering;
    for (std::size_t i = 0; i < records.size(); ++i) {
        const Record& record = records[i];
        const bool fresh =
            i == 0 || record.top != records[i - 1].top || std::memcmp(code(record), code(records[i - 1]), low) != 0;
        if (fresh) {
            numbering.codes.insert(numbering.codes.end(), code(record), code(record) + bytes);
            numbering.sizes.push_back(0);
        }
        numbering.sizes.back() += found[record.task].sizes[record.number];
        found[record.task].group[record.number] = static_cast<std::uint32_t>(numbering.sizes.size() - 1);
    }
    return numbering;
}

}  // namespace

Numbering number_codes(const Codes& codes, const std::uint32_t* order, std::size_t distinct, std::uint32_t* group_of,
                       std::uint32_t* scratch, unsigned threads, Stop& stop) {
    const Numberer numberer{codes, order, threads, stop};
    const std::size_t parts = std::min(most_parts, std::bit_ceil(distinct / cached_codes + 1));
    const Tasks tasks = parts == 1 ? numberer.ranges() : numberer.parts(parts, scratch);
    std::vector<Found> found = numberer.find(tasks, group_of);
    Numbering numbering = merge(found, code_bytes(codes.bits), threads);
    pool::run(
        tasks.count(), threads,
        [&](std::size_t task) {
            const std::uint32_t* const group = found[task].group.data();
            for (std::size_t at = tasks.begins[task]; at < tasks.begins[task + 1]; ++at) {
                if (at % portion == 0) stop.check();
                std::uint32_t& number = group_of[tasks.place(at)];
                number = group[number];
            }
        },
        stop.while_waiting());
    return numbering;
}

}  // namespace idcwh
