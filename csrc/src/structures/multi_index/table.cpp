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
constexpr double ring_bucket_bits = 3;   // log2 of the mean size of a bucket
constexpr std::size_t portion = 512;     // rows whose places are prefetched together
constexpr std::size_t check_rows = 64 * portion;  // rows between two checks of the interrupt

std::size_t bytes_for(unsigned bits) { return (bits + 7) / 8; }

// Returns the bits in the entries of table t: of a ring, the next substring; of the primary, all bits behind substring
// 0; of another table, substring 0.
Substring rest_of(unsigned bits, const std::vector<Substring>& substrings, std::size_t t) {
    if (is_ring(bits)) return substrings[(t + 1) % substrings.size()];
    return t ? substrings[0] : Substring{substrings[0].width, bits - substrings[0].width};
}

bool has_rows(unsigned bits, std::size_t t) { return is_ring(bits) || t == 0; }

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
    if (is_ring(bits)) {
        const double fitting = std::log2(static_cast<double>(n)) - ring_bucket_bits;
        const auto widest = static_cast<unsigned>(std::min<double>(max_substring_bits, fitting));
        const unsigned count = (bits + widest - 1) / widest;
        std::vector<Substring> substrings;
        for (unsigned i = 0; i < count; ++i) {
            const unsigned begin = bits * i / count;
            substrings.push_back({begin, bits * (i + 1) / count - begin});
        }
        return substrings;
    }
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
    std::size_t bytes = 0;
    for (std::size_t t = 0; t < substrings.size(); ++t) {
        bytes += n * (bytes_for(rest_of(bits, substrings, t).width) + (has_rows(bits, t) ? sizeof(std::uint32_t) : 0));
        bytes += ((std::size_t{1} << substrings[t].width) + 1) * sizeof(std::uint32_t);
    }
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
    for (std::size_t t = 0; t < substrings.size(); ++t) {
        const Substring rest = rest_of(codes.bits, substrings, t);
        const std::size_t bytes = bytes_for(rest.width), buckets = std::size_t{1} << substrings[t].width;
        tables.table.push_back({substrings[t], rest, bytes,
                                HugeArray<std::uint32_t>(buckets + 1, sizeof(std::uint32_t)),
                                HugeArray<std::uint8_t>(codes.size * bytes, load_slack),
                                HugeArray<std::uint32_t>(has_rows(codes.bits, t) ? codes.size : 0)});
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
            const Field rest(codes.bits, mine.table.rest.offset, mine.table.rest.width);
            const std::size_t bytes = mine.table.entry_bytes;
            std::uint8_t* const entries = mine.table.entries.data();
            std::uint32_t* const next = mine.table.begins.data() + 1;
            const bool numbered = mine.table.rows.size();
            std::uint32_t* const numbers = mine.table.rows.data();
            mine.each(next, [&](const std::uint32_t* buckets, const std::uint32_t* rows, std::size_t count) {
                std::uint32_t places[portion];
                for (std::size_t i = 0; i < count; ++i) {
                    const std::size_t at = places[i] = next[buckets[i]]++;
                    __builtin_prefetch(entries + at * bytes, 1);
                    if (numbered) __builtin_prefetch(numbers + at, 1);
                }
                for (std::size_t i = 0; i < count; ++i) {
                    const std::size_t at = places[i];
                    store(entries + at * bytes, rest.of_row(codes, rows[i]), bytes);
                    if (numbered) numbers[at] = rows[i];
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
