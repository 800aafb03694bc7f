// See version.hpp.
#include "index/version.hpp"

#include "structures/structures.hpp"

namespace idcwh::detail {

Segment Contents::segment() const {
    Segment segment;
    segment.bits = bits;
    segment.rows = rows;
    segment.live = live;
    segment.ascending = ascending;
    segment.codes = codes ? codes->data() : nullptr;
    segment.ids = id_data();
    segment.alive = alive ? reinterpret_cast<const std::uint64_t*>(alive->data()) : nullptr;
    segment.table = table.get();
    segment.structures = structures.get();
    return segment;
}

std::size_t Contents::memory() const {
    std::size_t sum = 0;
    for (const auto& buffer : {codes, ids, alive})
        if (buffer) sum += buffer->size();
    if (table) sum += table->memory();
    if (structures) sum += structures->memory();
    return sum;
}

}  // namespace idcwh::detail
