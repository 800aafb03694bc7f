// codes.bin, format version 1, number for number as docs/codes-bin.md says: what lies where, and nothing of what is
// done with it. All numbers are little-endian; the structures are copied out of the file, never pointed into it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace idcwh::storage {

static_assert(std::endian::native == std::endian::little, "codes.bin is read as it lies");

inline constexpr unsigned char magic[8] = {0x89, 'I', 'D', 'C', 'W', 'H', '\r', '\n'};
inline constexpr std::uint32_t version = 1;
inline constexpr std::uint64_t alignment = 64;   // of records and sections
inline constexpr std::uint64_t block = 1 << 16;  // bytes that one checksum covers
inline constexpr std::uint64_t first_record = 4096;
inline constexpr std::uint64_t mark_offsets[2] = {512, 1024};  // in sectors of their own: one torn write spoils one

struct Header {  // at 0
    unsigned char magic[8];
    std::uint32_t version;
    std::uint32_t bits;
    unsigned char file_id[16];
    unsigned char zero[28];
    std::uint32_t crc;
};
static_assert(sizeof(Header) == 64);

// Where the last commit is that was acknowledged; commit n is noted in mark n % 2.
struct Mark {
    char magic[4];  // MARK
    std::uint32_t zero;
    std::uint64_t commit;  // its number
    std::uint64_t offset;  // of its record
    std::uint64_t end;     // of its record: the file is at least this long
    unsigned char zeros[28];
    std::uint32_t crc;  // seeded with the header's
};
static_assert(sizeof(Mark) == 64);

enum class Kind : std::uint32_t { manifest = 1, items = 2, removals = 3, commit = 4, structure = 5 };

struct RecordHead {
    char magic[4];  // RECD
    Kind kind;
    std::uint64_t length;  // of the whole record
    std::uint64_t offset;  // of this record in the file
    std::uint64_t commit;  // number of the commit that it was written for
    std::uint32_t head_length;
    std::uint32_t sections;
    std::uint64_t a, b, c;  // by kind, under the names below

    std::uint64_t items() const { return a; }           // of items, and of a commit
    std::uint64_t first_id() const { return b; }        // of items
    std::uint64_t rows() const { return a; }            // of removals
    std::uint64_t segment_offset() const { return b; }  // of removals: the items that they are rows of
    std::uint64_t next_id() const { return b; }         // of a commit
    std::uint64_t number() const { return c; }          // of a commit
};  // then the sections, then a CRC of all of it, seeded with the header's
static_assert(sizeof(RecordHead) == 64);

enum class SectionKind : std::uint32_t {
    codes = 1,
    ids = 2,
    key_ends = 3,
    keys = 4,
    labels = 5,
    label_table = 6,
    json = 7,
    rows = 8,
    directory = 9,
    id_offsets = 10,
    mtime_signatures = 11,
    checksums = 12,
    id_runs = 13,
};

struct SectionHead {
    SectionKind kind;
    std::uint32_t table_crc;
    std::uint64_t offset;  // from the start of the record
    std::uint64_t length;
    std::uint64_t table;  // offset of the checksum table, from the start of the record
};
static_assert(sizeof(SectionHead) == 32);

inline constexpr std::uint32_t max_sections = 64;
inline constexpr std::uint64_t no_first_id = ~std::uint64_t{0};
inline constexpr std::uint32_t no_label = ~std::uint32_t{0};
inline constexpr std::uint64_t max_items = 0xffffffff;  // of one record: rows are 32-bit
inline constexpr std::uint64_t max_text = 0xffffffff;   // bytes of keys, or of labels, of one record
inline constexpr std::uint64_t ids_ascend = 1;          // in c of an items record

constexpr std::uint64_t aligned(std::uint64_t size) { return (size + alignment - 1) / alignment * alignment; }
constexpr std::uint64_t blocks_of(std::uint64_t length) { return length / block + (length % block != 0); }
constexpr std::uint64_t head_length(std::uint64_t sections) {
    return sizeof(RecordHead) + sections * sizeof(SectionHead) + 4;
}

}  // namespace idcwh::storage
