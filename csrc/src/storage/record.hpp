// Records and their sections: what is read is checked, block by block, when it is first read.
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

// A place of a file that is corrupt.
struct Fault {
    std::string what;              // record, section, block
    std::uint64_t offset, length;  // in the file
};
// What an error says, without the path and the hint.
std::string described(const Error& error);

// The header of a file that is open: when another file is copied over it, the header is the first to change.
class Identity {
public:
    Identity(const File& file, const Header& header);
    bool overwritten() const;
    // Error(corrupt) when it was overwritten.
    void check() const;

private:
    std::string path_;
    Header header_;
    Mapping now_;
};

class Section {
public:
    // path: of the file, lives longer than the section. identity: of the file, or null. A block that is corrupt because
    // the file was overwritten is reported as that.
    Section(const SectionHead& head, std::uint64_t record, const std::string& name, const std::string& path,
            const std::uint8_t* bytes, const Identity* identity);

    SectionKind kind() const { return head_.kind; }
    std::uint64_t size() const { return head_.length; }

    // Bytes [begin, end), which lie within the section. Error(corrupt) names the first block of them that is.
    const std::uint8_t* read(std::uint64_t begin, std::uint64_t end, unsigned threads = 1) const;
    template <class T>
    const T* all(unsigned threads = 1) const {
        return reinterpret_cast<const T*>(read(0, size(), threads));
    }
    // A number at any place of it.
    std::uint32_t number(std::uint64_t index) const;
    // Every corrupt block, looked at anew.
    void verify(std::vector<Fault>& faults, unsigned threads) const;

private:
    bool table_is_good() const;
    bool block_is_good(std::uint64_t number) const;
    [[noreturn]] void fail(const Fault& fault) const;
    Fault fault_of_table() const;
    Fault fault_of_block(std::uint64_t number) const;

    SectionHead head_;
    std::uint64_t record_;  // its offset in the file
    std::string name_;      // record, section
    const std::string& path_;
    const std::uint8_t *data_, *table_;
    const Identity* identity_;
    mutable std::atomic<bool> table_checked_{false};
    std::unique_ptr<std::atomic<bool>[]> checked_;  // a block each
};

class Record {
public:
    // The head is checked, Error(corrupt) says what is wrong with it; the sections are when they are read. seed: the
    // CRC of the file's header; size: of the file.
    static std::shared_ptr<const Record> read(const File& file, std::uint32_t seed, std::uint64_t offset,
                                              std::uint64_t size, std::shared_ptr<const Identity> identity = nullptr);
    // The head of a record that may not be there.
    static std::optional<RecordHead> peek(const File& file, std::uint32_t seed, std::uint64_t offset,
                                          std::uint64_t size);

    const RecordHead& head() const { return head_; }
    const std::string& path() const { return path_; }
    const Section* find(SectionKind kind) const;
    // Error(corrupt) when there is none.
    const Section& section(SectionKind kind) const;
    // Sections, their tables and the gaps between them.
    void verify(std::vector<Fault>& faults, unsigned threads) const;
    [[noreturn]] void fail(const std::string& what, const std::string& found = {},
                           const std::string& expected = {}) const;
    // Error(corrupt) when the file was cut off while the record was read.
    void check_whole() const;

private:
    Record() = default;
    RecordHead head_{};
    std::string path_, name_;  // of the file; kind and place, for messages
    std::unique_ptr<Mapping> memory_;
    std::shared_ptr<const Identity> identity_;
    std::vector<SectionHead> heads_;
    std::vector<std::unique_ptr<Section>> sections_;
};

const char* name_of(Kind kind);

}  // namespace idcwh::storage
