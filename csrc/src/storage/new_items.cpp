// See new_items.hpp.
#include "storage/new_items.hpp"

#include <limits>
#include <string>

#include "base/fail.hpp"
#include "base/given_ids.hpp"
#include "scan/plan.hpp"
#include "storage/format.hpp"

namespace idcwh::storage {
namespace {

constexpr std::int64_t max_id = std::numeric_limits<std::int64_t>::max();

}  // namespace

void check_items(const NewItems& items, unsigned bits, std::uint64_t next_id,
                 const std::function<bool(std::int64_t)>& taken) {
    if (items.size && !items.codes)
        fail({.path = "codes", .found = "null", .expected = std::to_string(items.size) + " codes"});
    if (items.size > static_cast<std::size_t>(max_id) / 8 / code_bytes(bits))
        fail({.path = "size",
              .found = std::to_string(items.size),
              .expected = "a number of codes that fits the address space"});
    check_padding({items.codes, items.size, bits}, "codes");
    for (std::size_t i = 0; items.keys && i < items.size; ++i)
        if (items.keys[i].size() > max_text)
            fail({.path = "keys",
                  .found = std::to_string(items.keys[i].size()) + " bytes",
                  .expected = "at most 4 GiB"});
    for (std::size_t i = 0; items.labels && i < items.size; ++i)
        if (items.labels[i].size() > max_text / 2)
            fail({.path = "labels",
                  .found = std::to_string(items.labels[i].size()) + " bytes",
                  .expected = "at most 2 GiB"});
    if (items.ids)
        check_given_ids(items.ids, items.size, next_id, taken, "database");
    else if (static_cast<std::uint64_t>(max_id) + 1 - next_id < items.size)
        fail({.path = "ids",
              .problem = "none are left after " + std::to_string(next_id - 1),
              .hint = "give the ids explicitly"});
}

void put_assigned(const NewItems& items, std::uint64_t first, std::int64_t* assigned) {
    for (std::size_t i = 0; assigned && i < items.size; ++i)
        assigned[i] = items.ids ? items.ids[i] : static_cast<std::int64_t>(first + i);
}

}  // namespace idcwh::storage
