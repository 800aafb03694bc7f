// See table.hpp.
#include "structures/table.hpp"

namespace idcwh {
namespace {

// measured by a scan in the time of one lookup, by csrc/bench/groups.cpp on Zen 3
constexpr std::size_t codes_a_value = 8;
constexpr std::size_t least_values = 64;  // looked up in the time that a scan needs to start

}  // namespace

std::unique_ptr<DirectTable> DirectTable::build(const Codes& codes) {
    std::unique_ptr<DirectTable> table(new DirectTable);
    table->bits_ = codes.bits;
    table->affordable_ = least_values + codes.size / codes_a_value;
    table->rows_.assign(std::size_t{1} << codes.bits, none);
    const std::size_t bytes = code_bytes(codes.bits);
    for (std::size_t row = 0; row < codes.size; ++row) {
        const std::uint8_t* code = codes.data + row * bytes;
        if (!table->has_value(code)) return nullptr;
        table->rows_[table->value(code)] = static_cast<std::uint32_t>(row);
    }
    return table;
}

}  // namespace idcwh
