// See buckets.hpp.
#include "join/buckets.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/pool.hpp"
#include "structures/multi_index/bits.hpp"

namespace idcwh::join_detail {

Buckets sort_by(const Part& part, const Codes& codes, unsigned threads, Stop& stop) {
    constexpr std::size_t portion = std::size_t{1} << 16;
    const std::size_t n = codes.size, bytes = code_bytes(codes.bits), values = std::size_t{1} << part.width;
    const multi::Field field(codes.bits, part.offset, part.width);
    Buckets buckets;
    buckets.begins = HugeArray<std::uint32_t>(values + 1);
    buckets.numbers = HugeArray<std::uint32_t>(n);
    buckets.codes = HugeArray<std::uint8_t>(n * bytes, 64);
    HugeArray<std::uint32_t> value_of(n);
    const std::size_t tasks = std::min<std::size_t>(threads, n / portion + 1);
    std::vector<HugeArray<std::uint32_t>> counts;
    for (std::size_t task = 0; task < tasks; ++task) counts.emplace_back(values);
    const auto in_range = [&](auto body) {
        pool::run(
            tasks, threads,
            [&](std::size_t task) {
                for (std::size_t i = n * task / tasks; i < n * (task + 1) / tasks; ++i) {
                    if (i % portion == 0) stop.check();
                    body(counts[task], i);
                }
            },
            stop.while_waiting());
    };
    for (auto& count : counts) std::fill_n(count.data(), values, 0u);
    in_range([&](auto& count, std::size_t i) {
        value_of[i] = static_cast<std::uint32_t>(field.of_code(codes.data + i * bytes));
        ++count[value_of[i]];
    });
    std::uint32_t sum = 0;
    for (std::size_t value = 0; value < values; ++value) {
        buckets.begins[value] = sum;
        for (auto& count : counts) sum += std::exchange(count[value], sum);
    }
    buckets.begins[values] = sum;
    in_range([&](auto& count, std::size_t i) {
        const std::uint32_t at = count[value_of[i]]++;
        buckets.numbers[at] = static_cast<std::uint32_t>(i);
        std::memcpy(buckets.codes.data() + at * bytes, codes.data + i * bytes, bytes);
    });
    return buckets;
}

}  // namespace idcwh::join_detail
