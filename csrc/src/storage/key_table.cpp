// See key_table.hpp.
#include "storage/key_table.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "base/pool.hpp"

namespace idcwh::storage {
namespace {

constexpr std::size_t least_rows = 1 << 16, most_tasks = 256;  // a task hashes much longer than it takes to start
constexpr unsigned part_bits = 15, most_part_bits = 10;        // 128 KiB of begins_ per part are in a core's cache
constexpr std::uint32_t no_bucket = ~std::uint32_t{0};

struct KeyedRow {
    std::uint32_t bucket, row;
};

}  // namespace

// A counting sort of the rows by bucket: into parts of the buckets first, and then within each part. One sort of all
// would wait for memory at every row.
KeyTable::KeyTable(std::size_t rows, const std::function<std::string_view(std::size_t)>& key, unsigned threads)
    // Half of the next power of two: one or two keys per bucket.
    : mask_(static_cast<std::uint32_t>(std::bit_ceil(std::max<std::size_t>(rows, 2)) / 2 - 1)),
      begins_(std::size_t{mask_} + 2) {
    const auto bits = static_cast<unsigned>(std::bit_width(mask_));
    const unsigned shift = std::max(part_bits, bits - std::min(bits, most_part_bits));
    const std::size_t parts = (std::size_t{mask_} >> shift) + 1, part_buckets = std::size_t{1} << shift;
    const std::size_t per_task = std::max(least_rows, rows / most_tasks + 1), tasks = rows / per_task + 1;
    HugeArray<std::uint32_t> buckets(rows);
    std::vector<std::size_t> places(tasks * parts);  // number of rows per task and part, then the place of the next one
    const auto each = [&](std::size_t task, const auto& use) {
        const std::size_t end = std::min(rows, (task + 1) * per_task);
        for (std::size_t row = task * per_task; row < end; ++row) use(row, &places[task * parts]);
    };
    pool::run(tasks, threads, [&](std::size_t task) {
        each(task, [&](std::size_t row, std::size_t* counts) {
            const std::string_view text = key(row);
            buckets[row] = text.empty() ? no_bucket : bucket_of(text);
            if (!text.empty()) ++counts[buckets[row] >> shift];
        });
    });
    std::vector<std::size_t> starts;  // the place of each part
    std::size_t total = 0;
    for (std::size_t part = 0; part < parts; ++part) {
        starts.push_back(total);
        for (std::size_t task = 0; task < tasks; ++task) {
            const std::size_t count = std::exchange(places[task * parts + part], total);
            total += count;
        }
    }
    starts.push_back(total);
    HugeArray<KeyedRow> keyed(total);
    pool::run(tasks, threads, [&](std::size_t task) {
        each(task, [&](std::size_t row, std::size_t* next) {
            const std::uint32_t bucket = buckets[row];
            if (bucket != no_bucket) keyed[next[bucket >> shift]++] = {bucket, static_cast<std::uint32_t>(row)};
        });
    });
    rows_ = HugeArray<std::uint32_t>(total);
    begins_[begins_.size() - 1] = static_cast<std::uint32_t>(total);
    pool::run(parts, threads, [&](std::size_t part) {
        std::uint32_t* const first = begins_.data() + part * part_buckets;
        std::uint32_t* const last = std::min(first + part_buckets, begins_.data() + begins_.size() - 1);
        std::fill(first, last, 0u);
        for (std::size_t i = starts[part]; i < starts[part + 1]; ++i) ++begins_[keyed[i].bucket];
        auto end = static_cast<std::uint32_t>(starts[part]);
        for (std::uint32_t* begin = first; begin < last; ++begin) *begin = end += *begin;
        for (std::size_t i = starts[part + 1]; i-- > starts[part];) rows_[--begins_[keyed[i].bucket]] = keyed[i].row;
    });
}

}  // namespace idcwh::storage
