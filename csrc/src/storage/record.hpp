// Records of a codes.bin and their sections. Each block is checked when it is first read.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <idcwh/error.hpp>

#include "storage/format.hpp"
#include "storage/mapping.hpp"

namespace idcwh::storage {

// A corrupt range of a file.
struct Fault {
    std::string what;              // name of the record, section or block
    std::uint64_t offset, length;  // in the file
};
// Returns the message of an error without the path and the hint.
std::string described(const Error& error);

// The header of an open file. It reveals that another file was copied over this one, because the header changes first.
class Identity {
public:
    Identity(const File& file, const Header& header);
    bool overwritten() const;
    // Throws Error(corrupt) if the file was overwritten.
    void check() const;

private:
    std::string path_;
    Header header_;
    Mapping now_;
};

// A section of a record in memory. Thread-safe.
class Section {
public:
    // record: offset of the record. path: path of the file, which must outlive the section. identity: the file's
    // header, or null. With it, a corrupt block of an overwritten file is reported as an overwritten file.
    Section(const SectionHead& head, std::uint64_t record, const std::string& name, const std::string& path,
            const std::uint8_t* bytes, const Identity* identity);

    SectionKind kind() const { return head_.kind; }
    std::uint64_t size() const { return head_.length; }

    // Returns bytes [begin, end), which must be within the section. Throws Error(corrupt) with the first corrupt block.
    const std::uint8_t* read(std::uint64_t begin, std::uint64_t end, unsigned threads = 1) const;
    template <class T>
    const T* all(unsigned threads = 1) const {
        return reinterpret_cast<const T*>(read(0, size(), threads));
    }
    // Returns a 32-bit number of the section.
    std::uint32_t number(std::uint64_t index) const;
    // Adds every corrupt block. Checks blocks again that were checked before.
    void verify(std::vector<Fault>& faults, unsigned threads) const;

private:
    bool table_is_good() const;
    bool block_is_good(std::uint64_t number) const;
    [[noreturn]] void fail(const Fault& fault) const;
    Fault fault_of_table() const;
    Fault fault_of_block(std::uint64_t number) const;

    SectionHead head_;
    std::uint64_t record_;  // offset of the record in the file
    std::string name_;      // names of the record and the section
    const std::string& path_;
    const std::uint8_t *data_, *table_;
    const Identity* identity_;
    mutable std::atomic<bool> table_checked_{false};
    std::unique_ptr<std::atomic<bool>[]> checked_;  // one per block
};

// A record in memory.
class Record {
public:
    // Maps a record. Throws Error(corrupt) if its head is invalid. Sections are checked when they are read. seed: CRC
    // of the file's header. size: size of the file.
    static std::shared_ptr<const Record> read(const File& file, std::uint32_t seed, std::uint64_t offset,
                                              std::uint64_t size, std::shared_ptr<const Identity> identity = nullptr);
    // Returns the head of a record, or nothing if there is no valid one at this offset.
    static std::optional<RecordHead> peek(const File& file, std::uint32_t seed, std::uint64_t offset,
                                          std::uint64_t size);

    const RecordHead& head() const { return head_; }
    const std::string& path() const { return path_; }
    const Section* find(SectionKind kind) const;
    // Returns a section. Throws Error(corrupt) if it is missing.
    const Section& section(SectionKind kind) const;
    // Adds the faults of sections, of their checksum tables and of the gaps between them.
    void verify(std::vector<Fault>& faults, unsigned threads) const;
    [[noreturn]] void fail(const std::string& what, const std::string& found = {},
                           const std::string& expected = {}) const;
    // Throws Error(corrupt) if the file was truncated while the record was mapped.
    void check_whole() const;
    // The same if it was truncated or overwritten.
    void check() const;

private:
    Record() = default;
    RecordHead head_{};
    std::string path_;  // path of the file
    std::string name_;  // kind and offset, for messages
    std::unique_ptr<Mapping> memory_;
    std::shared_ptr<const Identity> identity_;
    std::vector<SectionHead> heads_;
    std::vector<std::unique_ptr<Section>> sections_;
};

const char* name_of(Kind kind);

}  // namespace idcwh::storage
