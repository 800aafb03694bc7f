// The layout of codes.bin, format version 1, as docs/codes-bin.md specifies it. All numbers are little-endian. The
// structures are copied from the file, because their addresses in it may be unaligned.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace idcwh::storage {

static_assert(std::endian::native == std::endian::little, "codes.bin is little-endian");

inline constexpr unsigned char magic[8] = {0x89, 'I', 'D', 'C', 'W', 'H', '\r', '\n'};
inline constexpr std::uint32_t version = 1;
inline constexpr std::uint64_t alignment = 64;   // records and sections start at multiples of it
inline constexpr std::uint64_t block = 1 << 16;  // bytes per checksum
inline constexpr std::uint64_t first_record = 4096;
inline constexpr std::uint64_t mark_offsets[2] = {512, 1024};  // separate sectors, so a torn write corrupts one mark

struct Header {  // at offset 0
    unsigned char magic[8];
    std::uint32_t version;
    std::uint32_t bits;
    unsigned char file_id[16];
    unsigned char zero[28];
    std::uint32_t crc;
};
static_assert(sizeof(Header) == 64);

// The position of the last acknowledged commit. Commit n is written to mark n % 2.
struct Mark {
    char magic[4];  // MARK
    std::uint32_t zero;
    std::uint64_t commit;  // number of the commit
    std::uint64_t offset;  // start of its record
    std::uint64_t end;     // end of its record; the file is at least this long
    unsigned char zeros[28];
    std::uint32_t crc;  // seeded with the CRC of the header
};
static_assert(sizeof(Mark) == 64);

enum class Kind : std::uint32_t { manifest = 1, items = 2, removals = 3, commit = 4, structure = 5 };

struct RecordHead {
    char magic[4];  // RECD
    Kind kind;
    std::uint64_t length;  // bytes of the whole record
    std::uint64_t offset;  // offset of the record in the file
    std::uint64_t commit;  // number of the commit that it was written for
    std::uint32_t head_length;
    std::uint32_t sections;
    std::uint64_t a, b, c;  // their meaning depends on the kind

    // Items and commit records:
    std::uint64_t items() const { return a; }
    // Items records:
    std::uint64_t first_id() const { return b; }
    // Removals records; segment_offset() is the offset of the items record that contains the rows.
    std::uint64_t rows() const { return a; }
    std::uint64_t segment_offset() const { return b; }
    // Commit records:
    std::uint64_t next_id() const { return b; }
    std::uint64_t number() const { return c; }
};  // followed by the section heads and by a CRC of both, seeded with the CRC of the header
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
inline constexpr std::uint64_t max_items = 0xffffffff;  // per record; row numbers have 32 bits
inline constexpr std::uint64_t max_text = 0xffffffff;   // bytes of keys, or of labels, per record
inline constexpr std::uint64_t ids_ascend = 1;          // flag in c of an items record

constexpr std::uint64_t aligned(std::uint64_t size) { return (size + alignment - 1) / alignment * alignment; }
constexpr std::uint64_t blocks_of(std::uint64_t length) { return length / block + (length % block != 0); }
constexpr std::uint64_t head_length(std::uint64_t sections) {
    return sizeof(RecordHead) + sections * sizeof(SectionHead) + 4;
}

}  // namespace idcwh::storage
