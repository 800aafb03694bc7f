// See new_items.hpp.
#include "storage/new_items.hpp"

#include <limits>
#include <string>

#include "base/fail.hpp"
#include "base/given_ids.hpp"
#include "storage/format.hpp"

namespace idcwh::storage {
namespace {

constexpr std::int64_t max_id = std::numeric_limits<std::int64_t>::max();

}  // namespace

void check_items(const NewItems& items, unsigned bits, std::uint64_t next_id,
                 const std::function<bool(std::int64_t)>& taken) {
    if (items.size && !items.codes) fail("codes is null, but size is " + std::to_string(items.size));
    if (items.size > static_cast<std::size_t>(max_id) / 8 / code_bytes(bits))
        fail("size is " + std::to_string(items.size) + ": more codes than the address space holds");
    if (!padding_is_zero({items.codes, items.size, bits}))
        fail("codes have bits set behind the last of their " + std::to_string(bits) + " bits; padding must be zero");
    for (std::size_t i = 0; items.keys && i < items.size; ++i)
        if (items.keys[i].size() > max_text) fail("keys: one has more than 4 GiB");
    for (std::size_t i = 0; items.labels && i < items.size; ++i)
        if (items.labels[i].size() > max_text / 2) fail("labels: one has more than 2 GiB");
    if (items.ids)
        check_given_ids(items.ids, items.size, next_id, taken, "database");
    else if (static_cast<std::uint64_t>(max_id) + 1 - next_id < items.size)
        fail("ids: none are left after " + std::to_string(next_id - 1) + "; give them explicitly");
}

void put_assigned(const NewItems& items, std::uint64_t first, std::int64_t* assigned) {
    for (std::size_t i = 0; assigned && i < items.size; ++i)
        assigned[i] = items.ids ? items.ids[i] : static_cast<std::int64_t>(first + i);
}

}  // namespace idcwh::storage
