// Writing records behind the end of a file, through a buffer, their checksums computed on the way.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "storage/file.hpp"
#include "storage/format.hpp"

namespace idcwh::storage {

class Appender {
public:
    Appender(File& file, std::uint32_t seed, std::uint64_t end) : file_(file), seed_(seed), at_(end), end_(end) {}

    std::uint64_t end() const { return end_; }
    std::uint32_t seed() const { return seed_; }
    void put(const void* data, std::size_t size);
    void zeros(std::uint64_t size);
    // Writes over what was put before.
    void patch(std::uint64_t offset, const void* data, std::size_t size);
    void flush();

private:
    File& file_;
    std::uint32_t seed_;
    std::uint64_t at_;   // where the buffer belongs
    std::uint64_t end_;  // of all that was put
    std::vector<std::uint8_t> buffer_;
};

using Sizes = std::vector<std::pair<SectionKind, std::uint64_t>>;

// One record: the sizes of all sections, then the bytes of each in this order.
class RecordWriter {
public:
    RecordWriter(Appender& out, Kind kind, std::uint64_t commit, const Sizes& sections, std::uint64_t a = 0,
                 std::uint64_t b = 0, std::uint64_t c = 0);

    void put(const void* data, std::size_t size);
    template <class T>
    void number(T value) {
        put(&value, sizeof value);
    }
    // Ends the record and returns its offset. Every section must be full.
    std::uint64_t finish();

private:
    void open();   // goes to where the next section that has bytes begins
    void close();  // writes the checksum table of the section that is full

    Appender& out_;
    RecordHead head_{};
    std::vector<SectionHead> sections_;
    std::size_t current_ = 0;
    std::uint64_t left_ = 0;  // bytes of the current section to come
    std::uint32_t crc_ = 0;   // of the block that is being filled
    std::uint64_t filled_ = 0;
    std::vector<std::uint32_t> table_;
};

}  // namespace idcwh::storage
