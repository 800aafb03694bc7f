// Writers that append records to a file through a buffer, with the checksums of their blocks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "storage/file.hpp"
#include "storage/format.hpp"

namespace idcwh::storage {

// A buffered writer at the end of a file. seed: the CRC of the file's header.
class Appender {
public:
    Appender(File& file, std::uint32_t seed, std::uint64_t end) : file_(file), seed_(seed), at_(end), end_(end) {}

    std::uint64_t end() const { return end_; }
    std::uint32_t seed() const { return seed_; }
    void put(const void* data, std::size_t size);
    void zeros(std::uint64_t size);
    // Overwrites bytes that were put before.
    void patch(std::uint64_t offset, const void* data, std::size_t size);
    void flush();

private:
    File& file_;
    std::uint32_t seed_;
    std::uint64_t at_;   // offset of the buffer in the file
    std::uint64_t end_;  // offset after all bytes that were put
    std::vector<std::uint8_t> buffer_;
};

using Sizes = std::vector<std::pair<SectionKind, std::uint64_t>>;

// A writer of one record. The constructor takes the sizes of all sections. put() then takes their bytes, in this order.
class RecordWriter {
public:
    RecordWriter(Appender& out, Kind kind, std::uint64_t commit, const Sizes& sections, std::uint64_t a = 0,
                 std::uint64_t b = 0, std::uint64_t c = 0);

    void put(const void* data, std::size_t size);
    template <class T>
    void number(T value) {
        put(&value, sizeof value);
    }
    // Writes the head of the record and returns its offset. Every section must be full.
    std::uint64_t finish();

private:
    void open();   // advances to the next section that is not empty
    void close();  // writes the checksum table of the current section, which is full

    Appender& out_;
    RecordHead head_{};
    std::vector<SectionHead> sections_;
    std::size_t current_ = 0;
    std::uint64_t left_ = 0;    // bytes that the current section still needs
    std::uint32_t crc_ = 0;     // checksum of the current block so far
    std::uint64_t filled_ = 0;  // bytes in the current block
    std::vector<std::uint32_t> table_;
};

}  // namespace idcwh::storage
