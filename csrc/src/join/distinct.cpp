// See distinct.hpp.
#include "join/distinct.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/pool.hpp"

namespace idcwh::join_detail {
namespace {

constexpr std::size_t parts = 256;  // ranges of hashes that are sorted apart

std::uint64_t hash(const std::uint8_t* code, std::size_t bytes) {
    std::uint64_t sum = bytes;
    for (std::size_t at = 0; at < bytes; at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, code + at, std::min<std::size_t>(8, bytes - at));
        sum = (sum ^ word) * 0x9e3779b97f4a7c15;
        sum ^= sum >> 32;
    }
    return sum * 0xd6e8feb86659fd93;
}

struct Hashed {
    std::uint32_t hash, row;
};

}  // namespace

Distinct distinct_codes(const Codes& codes, unsigned threads, Stop& stop) {
    const std::size_t n = codes.size, bytes = code_bytes(codes.bits);
    const auto code = [&](std::size_t row) { return codes.data + row * bytes; };
    // Rows by the upper byte of their hash, ascending in each part.
    HugeArray<Hashed> sorted(n);
    std::vector<std::size_t> begins(parts + 1);
    {
        const std::size_t tasks = std::min<std::size_t>(threads, n / 65536 + 1);
        std::vector<std::vector<std::size_t>> counts(tasks, std::vector<std::size_t>(parts));
        HugeArray<std::uint64_t> hashes(n);
        const auto in_range = [&](auto body) {
            pool::run(
                tasks, threads,
                [&](std::size_t task) {
                    for (std::size_t row = n * task / tasks; row < n * (task + 1) / tasks; ++row) {
                        if (row % 65536 == 0) stop.check();
                        body(task, row);
                    }
                },
                stop.while_waiting());
        };
        in_range([&](std::size_t task, std::size_t row) {
            hashes[row] = hash(code(row), bytes);
            ++counts[task][hashes[row] >> 56];
        });
        std::size_t sum = 0;
        for (std::size_t part = 0; part < parts; ++part) {
            begins[part] = sum;
            for (auto& count : counts) sum += std::exchange(count[part], sum);
        }
        begins[parts] = n;
        in_range([&](std::size_t task, std::size_t row) {
            sorted[counts[task][hashes[row] >> 56]++] = {static_cast<std::uint32_t>(hashes[row] >> 24),
                                                         static_cast<std::uint32_t>(row)};
        });
    }
    // Equal codes side by side, each with the row of the first.
    HugeArray<std::uint32_t> first_of(n);  // by row
    pool::run(
        parts, threads,
        [&](std::size_t part) {
            stop.check();
            Hashed* const begin = sorted.data() + begins[part];
            Hashed* const end = sorted.data() + begins[part + 1];
            const auto by_hash = [](const Hashed& a, const Hashed& b) {
                return a.hash != b.hash ? a.hash < b.hash : a.row < b.row;
            };
            if (!std::is_sorted(begin, end, by_hash)) std::sort(begin, end, by_hash);
            for (Hashed* run = begin; run != end;) {
                Hashed* const last =
                    std::find_if(run, end, [&](const Hashed& entry) { return entry.hash != run->hash; });
                bool equal = true;
                for (Hashed* at = run; at != last && equal; ++at)
                    equal = std::memcmp(code(run->row), code(at->row), bytes) == 0;
                if (!equal)  // different codes of one hash
                    std::sort(run, last, [&](const Hashed& a, const Hashed& b) {
                        const int order = std::memcmp(code(a.row), code(b.row), bytes);
                        return order != 0 ? order < 0 : a.row < b.row;
                    });
                for (Hashed* first = run; run != last; ++run) {
                    if (!equal && std::memcmp(code(first->row), code(run->row), bytes) != 0) first = run;
                    first_of[run->row] = first->row;
                }
            }
        },
        stop.while_waiting());

    Distinct distinct;
    distinct.bits = codes.bits;
    distinct.rows = HugeArray<std::uint32_t>(n, 64);
    for (std::size_t row = 0; row < n; ++row) distinct.size += first_of[row] == row;
    distinct.codes = HugeArray<std::uint8_t>(distinct.size * bytes, 64);
    distinct.begins = HugeArray<std::uint32_t>(distinct.size + 1);
    // The number of a code takes the place of its first row; a row that is not the first finds it there.
    HugeArray<std::uint32_t> number(n);
    std::vector<std::uint32_t> sizes(distinct.size);
    std::size_t next = 0;
    for (std::size_t row = 0; row < n; ++row) {
        if (row % 65536 == 0) stop.check();
        if (first_of[row] == row) {
            std::memcpy(distinct.codes.data() + next * bytes, code(row), bytes);
            number[row] = static_cast<std::uint32_t>(next++);
        } else {
            number[row] = number[first_of[row]];
        }
        ++sizes[number[row]];
    }
    std::uint32_t sum = 0;
    for (std::size_t at = 0; at < distinct.size; ++at) {
        distinct.begins[at] = sum;
        sum += std::exchange(sizes[at], sum);
    }
    distinct.begins[distinct.size] = sum;
    for (std::size_t row = 0; row < n; ++row) distinct.rows[sizes[number[row]]++] = static_cast<std::uint32_t>(row);
    return distinct;
}

}  // namespace idcwh::join_detail
