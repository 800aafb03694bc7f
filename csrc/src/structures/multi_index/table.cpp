// See table.hpp.
#include "structures/multi_index/table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/interrupt.hpp"
#include "base/pool.hpp"

namespace idcwh::multi {
namespace {

constexpr unsigned widest_primary = 24;  // 64 MiB of begins, and an entry of a 64-bit code has five whole bytes
constexpr std::size_t portion = 512;     // rows whose places are prefetched together
constexpr std::size_t check_rows = 64 * portion;  // rows between two checks of the interrupt

std::size_t bytes_for(unsigned bits) { return (bits + 7) / 8; }

unsigned primary_entry_bits(unsigned bits, const Substring& primary) { return std::min(bits, 64u) - primary.width; }

// Stores the low bytes of a word. A memcpy of unknown length would be a call.
inline void store(std::uint8_t* to, std::uint64_t word, std::size_t bytes) {
    if (bytes & 4) std::memcpy(to, &word, 4), to += 4, word >>= 32;
    if (bytes & 2) std::memcpy(to, &word, 2), to += 2, word >>= 16;
    if (bytes & 1) *to = static_cast<std::uint8_t>(word);
}

// One task's part of a counting sort: the buckets [number << shift, (number + 1) << shift). No two tasks write to the
// same memory, and each reads the rows in order.
struct Part {
    const Codes& codes;
    Table& table;
    Field substring;
    std::size_t number;
    unsigned shift;
    Stop& stop;

    // Calls use(buckets, rows, count) for the rows of this part, a portion at a time. It prefetches counters[bucket].
    template <class Use>
    void each(const std::uint32_t* counters, const Use& use) const {
        std::uint32_t buckets[portion], rows[portion];
        for (std::size_t begin = 0; begin < codes.size; begin += portion) {
            if (begin % check_rows == 0) stop.check();
            const std::size_t end = std::min(codes.size, begin + portion);
            std::size_t count = 0;
            for (std::size_t row = begin; row < end; ++row) {  // no branch: it would be mispredicted half of the time
                const auto bucket = static_cast<std::uint32_t>(substring.of_row(codes, row));
                buckets[count] = bucket;
                rows[count] = static_cast<std::uint32_t>(row);
                count += bucket >> shift == number;
            }
            for (std::size_t i = 0; i < count; ++i) __builtin_prefetch(counters + buckets[i], 1);
            use(buckets, rows, count);
        }
    }
};

}  // namespace

std::vector<Substring> cut(unsigned bits, std::size_t n) {
    const double widest = std::min<double>(max_substring_bits, std::log2(static_cast<double>(n)) - 1);
    const auto tables = static_cast<unsigned>(std::ceil(bits / widest));
    const auto comfortable = static_cast<unsigned>(std::min<double>(widest_primary, std::floor(widest - 1)));
    std::vector<Substring> substrings{{0, std::min(bits, std::max((bits + tables - 1) / tables, comfortable))}};
    const unsigned rest = bits - substrings[0].width;
    // A narrow substring at the end has buckets so large that another shell of the primary is always cheaper.
    unsigned others = rest < substrings[0].width / 2 ? 0 : std::max(1u, tables - 1);
    while (others && rest > others * static_cast<unsigned>(widest)) ++others;
    for (unsigned i = 0, offset = substrings[0].width; i < others; ++i) {
        const unsigned width = (bits - offset + others - i - 1) / (others - i);
        substrings.push_back({offset, width});
        offset += width;
    }
    return substrings;
}

// Returns the size in bytes of the tables of n codes.
static std::size_t tables_bytes(unsigned bits, std::size_t n, const std::vector<Substring>& substrings) {
    std::size_t bytes = n * (bytes_for(primary_entry_bits(bits, substrings[0])) + sizeof(std::uint32_t));
    bytes += n * bytes_for(substrings[0].width) * (substrings.size() - 1);
    for (const Substring& substring : substrings)
        bytes += ((std::size_t{1} << substring.width) + 1) * sizeof(std::uint32_t);
    return bytes;
}

std::vector<Substring> cut(unsigned bits, std::size_t n, std::size_t memory) {
    auto substrings = cut(bits, n);
    while (tables_bytes(bits, n, substrings) > memory && substrings.size() > least_substrings) substrings.pop_back();
    if (tables_bytes(bits, n, substrings) > memory) substrings.clear();
    return substrings;
}

Tables build_tables(const Codes& codes, const std::vector<Substring>& substrings, unsigned threads,
                    const Interrupt* interrupt) {
    Tables tables;
    tables.bits = codes.bits;
    tables.size = codes.size;
    tables.rows = HugeArray<std::uint32_t>(codes.size);
    for (std::size_t t = 0; t < substrings.size(); ++t) {
        const unsigned bits = t ? substrings[0].width : primary_entry_bits(codes.bits, substrings[0]);
        const std::size_t bytes = bytes_for(bits), buckets = std::size_t{1} << substrings[t].width;
        tables.table.push_back({substrings[t], bits, bytes,
                                HugeArray<std::uint32_t>(buckets + 1, sizeof(std::uint32_t)),
                                HugeArray<std::uint8_t>(codes.size * bytes, load_slack)});
    }

    Stop stop(interrupt);
    const unsigned parts = std::bit_ceil(std::max(threads, 1u));
    const auto part = [&](std::size_t task) {
        Table& table = tables.table[task / parts];
        const Substring substring = table.substring;
        const auto cut_bits = std::min(substring.width, static_cast<unsigned>(std::countr_zero(parts)));
        const Field field(codes.bits, substring.offset, substring.width);
        return Part{codes, table, field, task % parts, substring.width - cut_bits, stop};
    };
    const std::size_t tasks = tables.table.size() * parts;

    // The count of bucket b is stored in begins[b + 2]. In the last pass begins[b + 1] is the place of the next entry
    // of b, so that it ends as the begin of bucket b + 1.
    pool::run(tables.table.size(), threads, [&](std::size_t t) {
        auto& begins = tables.table[t].begins;
        std::fill_n(begins.data(), begins.size() + 1, 0u);
    });
    pool::run(
        tasks, threads,
        [&](std::size_t task) {
            const Part mine = part(task);
            std::uint32_t* const counts = mine.table.begins.data() + 2;
            mine.each(counts, [&](const std::uint32_t* buckets, const std::uint32_t*, std::size_t count) {
                for (std::size_t i = 0; i < count; ++i) ++counts[buckets[i]];
            });
        },
        stop.while_waiting());
    pool::run(tables.table.size(), threads, [&](std::size_t t) {
        auto& begins = tables.table[t].begins;
        for (std::size_t b = 1; b <= begins.size(); ++b) begins.data()[b] += begins.data()[b - 1];
    });
    pool::run(
        tasks, threads,
        [&](std::size_t task) {
            const Part mine = part(task);
            const bool primary = task / parts == 0;
            const unsigned skip = primary ? substrings[0].width : 0;
            const Field rest(codes.bits, skip, mine.table.entry_bits);
            const std::size_t bytes = mine.table.entry_bytes;
            std::uint8_t* const entries = mine.table.entries.data();
            std::uint32_t* const next = mine.table.begins.data() + 1;
            std::uint32_t* const numbers = tables.rows.data();
            mine.each(next, [&](const std::uint32_t* buckets, const std::uint32_t* rows, std::size_t count) {
                std::uint32_t places[portion];
                for (std::size_t i = 0; i < count; ++i) {
                    const std::size_t at = places[i] = next[buckets[i]]++;
                    __builtin_prefetch(entries + at * bytes, 1);
                    if (primary) __builtin_prefetch(numbers + at, 1);
                }
                for (std::size_t i = 0; i < count; ++i) {
                    const std::size_t at = places[i];
                    store(entries + at * bytes, rest.of_row(codes, rows[i]), bytes);
                    if (primary) numbers[at] = rows[i];
                }
            });
        },
        stop.while_waiting());
    return tables;
}

std::vector<std::uint32_t> substring_values(const Tables& tables, const std::uint8_t* code) {
    std::vector<std::uint32_t> values;
    for (const Table& table : tables.table)
        values.push_back(static_cast<std::uint32_t>(
            Field(tables.bits, table.substring.offset, table.substring.width).of_code(code)));
    return values;
}

}  // namespace idcwh::multi
