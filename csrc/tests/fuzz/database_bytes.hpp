// Files for the fuzzer of databases: intact files, and mutations of the numbers in them. Checksums are repaired, so
// that other checks than the CRC must find the error.
#pragma once

#include <idcwh/crc32c.hpp>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "../database_model.hpp"
#include "storage/format.hpp"

namespace fuzz {

using Bytes = std::vector<std::uint8_t>;
namespace format = idcwh::storage;

// Returns a small database after a few random steps, as the library writes it.
inline Bytes whole_file(const std::string& path, std::mt19937& random) {
    static constexpr unsigned widths[] = {1, 12, 48, 64, 520};
    check::State before{widths[random() % 5]}, after = before;
    {
        auto database = idcwh::Database::create(path, before.bits, "{}", true);
        for (unsigned steps = random() % 8; steps; --steps, before = after)
            check::random_step(database, before, after, 30, random);
    }
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
T load(const Bytes& bytes, std::uint64_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}
template <class T>
void store(Bytes& bytes, std::uint64_t offset, const T& value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// Returns the positions of the magic numbers of records.
inline std::vector<std::uint64_t> records_of(const Bytes& bytes) {
    std::vector<std::uint64_t> found;
    for (std::uint64_t at = format::first_record; at + sizeof(format::RecordHead) + 4 <= bytes.size();
         at += format::alignment)
        if (std::memcmp(bytes.data() + at, "RECD", 4) == 0) found.push_back(at);
    return found;
}

inline void repair_record(Bytes& bytes, std::uint64_t at, std::uint32_t seed) {
    const auto head = load<format::RecordHead>(bytes, at);
    const std::uint64_t room = bytes.size() - at;
    if (head.sections > format::max_sections || format::head_length(head.sections) > room) return;
    for (std::uint32_t i = 0; i < head.sections; ++i) {
        const std::uint64_t where = at + sizeof head + i * sizeof(format::SectionHead);
        auto section = load<format::SectionHead>(bytes, where);
        if (section.offset > room || section.length > room - section.offset || section.table > room ||
            4 * format::blocks_of(section.length) > room - section.table)
            continue;
        for (std::uint64_t block = 0; block < format::blocks_of(section.length); ++block) {
            const std::uint64_t begin = block * format::block;
            store(bytes, at + section.table + 4 * block,
                  idcwh::crc32c(bytes.data() + at + section.offset + begin,
                                std::min(format::block, section.length - begin)));
        }
        section.table_crc = idcwh::crc32c(bytes.data() + at + section.table, 4 * format::blocks_of(section.length));
        store(bytes, where, section);
    }
    const std::uint64_t length = format::head_length(head.sections) - 4;
    store(bytes, at + length, idcwh::crc32c(bytes.data() + at, length, seed));
}

inline void repair(Bytes& bytes) {
    if (bytes.size() < format::first_record) return;
    std::memcpy(bytes.data(), format::magic, sizeof format::magic);
    const std::uint32_t seed = idcwh::crc32c(bytes.data(), sizeof(format::Header) - 4);
    store(bytes, sizeof(format::Header) - 4, seed);
    for (const std::uint64_t at : records_of(bytes)) repair_record(bytes, at, seed);
    for (const std::uint64_t at : format::mark_offsets)
        if (std::memcmp(bytes.data() + at, "MARK", 4) == 0)
            store(bytes, at + sizeof(format::Mark) - 4,
                  idcwh::crc32c(bytes.data() + at, sizeof(format::Mark) - 4, seed));
}

// Replaces one number of a record head, a commit mark or a section by a value that is likely to matter.
inline void change_a_number(Bytes& bytes, std::mt19937& random) {
    if (bytes.size() < format::first_record) return;
    const auto records = records_of(bytes);
    std::uint64_t at = random() % 8 ? 0 : format::mark_offsets[random() % 2];
    std::uint64_t span = 64;
    if (at == 0 && random() % 8 == 0) {
        span = 16;  // the header
    } else if (at == 0 && !records.empty()) {
        at = records[random() % records.size()];
        span = std::min<std::uint64_t>(random() % 2 ? 256 : 2048, bytes.size() - at);
    }
    at += random() % (span / 4) * 4;
    const bool wide = random() % 2;
    if (at + (wide ? 8 : 4) > bytes.size()) return;
    std::uint64_t value = wide ? load<std::uint64_t>(bytes, at) : load<std::uint32_t>(bytes, at);
    switch (random() % 8) {
        case 0: value += random() % 3; break;
        case 1: value -= random() % 3; break;
        case 2: value ^= std::uint64_t{1} << random() % 64; break;
        case 3: value = random() % 70; break;
        case 4: value = ~std::uint64_t{0} >> random() % 64; break;
        case 5: value = bytes.size() - random() % 200; break;
        case 6: value += 64 * (random() % 9) - 256; break;
        case 7: value = records.empty() ? 0 : records[random() % records.size()]; break;
    }
    if (wide)
        store(bytes, at, value);
    else
        store(bytes, at, static_cast<std::uint32_t>(value));
}

}  // namespace fuzz
