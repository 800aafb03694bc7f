// See record.hpp.
#include "storage/record.hpp"

#include <idcwh/crc32c.hpp>
#include <idcwh/error.hpp>

#include <algorithm>
#include <cstring>

#include "base/pool.hpp"

namespace idcwh::storage {
namespace {

const char* name_of(SectionKind kind) {
    switch (kind) {
        case SectionKind::codes: return "codes";
        case SectionKind::ids: return "ids";
        case SectionKind::key_ends: return "key ends";
        case SectionKind::keys: return "keys";
        case SectionKind::labels: return "labels";
        case SectionKind::label_table: return "label table";
        case SectionKind::json: return "manifest";
        case SectionKind::rows: return "rows";
        case SectionKind::directory: return "directory";
        case SectionKind::id_offsets: return "id offsets";
        case SectionKind::mtime_signatures: return "mtime signatures";
        case SectionKind::id_runs: return "id runs";
        case SectionKind::checksums: return "checksums";
    }
    return "unknown section";
}

constexpr std::uint64_t portion = 64;  // blocks per task: 4 MiB, much more work than starting a task

// Returns an error text, or "" if the sections are within the record, in order and without overlap.
std::string wrong_sections(const RecordHead& head, const std::vector<SectionHead>& sections) {
    std::uint64_t taken = head.head_length;
    for (const SectionHead& s : sections) {
        const std::string name = name_of(s.kind);
        if (s.offset < taken || s.offset % alignment || s.offset > head.length || s.length > head.length - s.offset ||
            s.table < s.offset + s.length || s.table % 4 || s.table > head.length ||
            4 * blocks_of(s.length) > head.length - s.table)
            return "has " + name + " outside of its bounds";
        taken = s.table + 4 * blocks_of(s.length);
        if (std::count_if(sections.begin(), sections.end(), [&](const auto& t) { return t.kind == s.kind; }) > 1)
            return "has " + name + " twice";
    }
    return {};
}

// Returns the head of a record and its section heads, or nothing if there is no valid head at this offset.
std::optional<RecordHead> head_at(const File& file, std::uint32_t seed, std::uint64_t offset, std::uint64_t size,
                                  std::vector<SectionHead>& sections) {
    RecordHead head;
    if (offset % alignment || offset > size || size - offset < sizeof head + 4) return std::nullopt;
    file.read(offset, &head, sizeof head);
    if (std::memcmp(head.magic, "RECD", 4) || head.sections > max_sections ||
        head.head_length != head_length(head.sections) || head.head_length > size - offset)
        return std::nullopt;
    sections.resize(head.sections);
    file.read(offset + sizeof head, sections.data(), sections.size() * sizeof(SectionHead));
    std::uint32_t stored;
    file.read(offset + head.head_length - 4, &stored, 4);
    const std::uint32_t crc =
        crc32c(sections.data(), sections.size() * sizeof(SectionHead), crc32c(&head, sizeof head, seed));
    if (crc != stored || head.offset != offset || head.length % alignment || head.length < head.head_length ||
        head.length > size - offset)
        return std::nullopt;
    return head;
}

}  // namespace

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::manifest: return "manifest";
        case Kind::items: return "items";
        case Kind::removals: return "removals";
        case Kind::commit: return "commit";
        case Kind::structure: return "structure";
    }
    return "unknown";
}

Identity::Identity(const File& file, const Header& header)
    : path_(file.path()), header_(header), now_(file, 0, sizeof header, true) {}

bool Identity::overwritten() const {
    std::atomic_thread_fence(std::memory_order_acquire);  // orders this check after the caller's reads
    return std::memcmp(now_.data(), &header_, sizeof header_) != 0;
}

void Identity::check() const {
    if (overwritten())
        fail_corrupt(path_, "was overwritten by another file while it was open", {}, {}, "open it again");
}

std::string described(const Error& error) {
    return Error(error.code(), {.problem = error.problem(), .found = error.found(), .expected = error.expected()})
        .what();
}

Section::Section(const SectionHead& head, std::uint64_t record, const std::string& name, const std::string& path,
                 const std::uint8_t* bytes, const Identity* identity)
    : head_(head),
      record_(record),
      name_(name + ", " + name_of(head.kind)),
      path_(path),
      data_(bytes + head.offset),
      table_(bytes + head.table),
      identity_(identity),
      checked_(new std::atomic<bool>[blocks_of(head.length)]()) {}

Fault Section::fault_of_table() const {
    return {name_ + ": checksum table", record_ + head_.table, 4 * blocks_of(head_.length)};
}
Fault Section::fault_of_block(std::uint64_t number) const {
    return {name_ + ": block " + std::to_string(number), record_ + head_.offset + number * block,
            std::min(block, head_.length - number * block)};
}

bool Section::table_is_good() const { return crc32c(table_, 4 * blocks_of(head_.length)) == head_.table_crc; }
bool Section::block_is_good(std::uint64_t number) const {
    std::uint32_t stored;
    std::memcpy(&stored, table_ + 4 * number, 4);
    const std::uint64_t begin = number * block;
    return crc32c(data_ + begin, std::min(block, head_.length - begin)) == stored;
}

void Section::fail(const Fault& fault) const {
    if (identity_) identity_->check();
    fail_corrupt(path_, fault.what + " (byte " + std::to_string(fault.offset) + ") does not match its checksum");
}

const std::uint8_t* Section::read(std::uint64_t begin, std::uint64_t end, unsigned threads) const {
    if (begin >= end) return data_ + begin;
    if (!table_checked_.load(std::memory_order_acquire)) {
        if (!table_is_good()) fail(fault_of_table());
        table_checked_.store(true, std::memory_order_release);
    }
    const std::uint64_t first = begin / block, last = (end - 1) / block;
    const auto check = [&](std::uint64_t number) {
        if (checked_[number].load(std::memory_order_acquire)) return;
        if (!block_is_good(number)) fail(fault_of_block(number));
        checked_[number].store(true, std::memory_order_release);
    };
    if (last - first < portion) {
        for (std::uint64_t number = first; number <= last; ++number) check(number);
    } else {
        pool::run((last - first) / portion + 1, threads ? threads : pool::available_threads(), [&](std::size_t task) {
            const std::uint64_t from = first + task * portion;
            for (std::uint64_t number = from; number < std::min(from + portion, last + 1); ++number) check(number);
        });
    }
    return data_ + begin;
}

std::uint32_t Section::number(std::uint64_t index) const {
    std::uint32_t value;
    std::memcpy(&value, read(4 * index, 4 * index + 4), 4);
    return value;
}

void Section::verify(std::vector<Fault>& faults, unsigned threads) const {
    if (!table_is_good()) {
        faults.push_back(fault_of_table());
        return;  // without the table, blocks cannot be checked
    }
    const std::uint64_t blocks = blocks_of(head_.length);
    const auto bad = std::make_unique<bool[]>(blocks);
    pool::run(blocks / portion + 1, threads ? threads : pool::available_threads(), [&](std::size_t task) {
        const std::uint64_t from = task * portion;
        for (std::uint64_t number = from; number < std::min(from + portion, blocks); ++number)
            bad[number] = !block_is_good(number);
    });
    for (std::uint64_t number = 0; number < blocks; ++number)
        if (bad[number]) faults.push_back(fault_of_block(number));
}

std::optional<RecordHead> Record::peek(const File& file, std::uint32_t seed, std::uint64_t offset, std::uint64_t size) {
    std::vector<SectionHead> sections;
    return head_at(file, seed, offset, size, sections);
}

std::shared_ptr<const Record> Record::read(const File& file, std::uint32_t seed, std::uint64_t offset,
                                           std::uint64_t size, std::shared_ptr<const Identity> identity) {
    auto record = std::shared_ptr<Record>(new Record);
    record->identity_ = std::move(identity);
    const auto head = head_at(file, seed, offset, size, record->heads_);
    if (!head && record->identity_) record->identity_->check();
    if (!head)
        fail_corrupt(file.path(), "the head of the record at byte " + std::to_string(offset) +
                                      " does not match its checksum, or the file is truncated");
    record->head_ = *head;
    record->path_ = file.path();
    record->name_ = std::string(name_of(head->kind)) + " record at byte " + std::to_string(offset);
    if (const std::string wrong = wrong_sections(*head, record->heads_); !wrong.empty()) record->fail(wrong);
    record->memory_ = std::make_unique<Mapping>(file, offset, head->length);
    for (const SectionHead& section : record->heads_)
        record->sections_.push_back(std::make_unique<Section>(section, offset, record->name_, record->path_,
                                                              record->memory_->data(), record->identity_.get()));
    return record;
}

const Section* Record::find(SectionKind kind) const {
    for (const auto& section : sections_)
        if (section->kind() == kind) return section.get();
    return nullptr;
}

const Section& Record::section(SectionKind kind) const {
    const Section* found = find(kind);
    if (!found) fail(std::string("has no ") + name_of(kind));
    return *found;
}

void Record::fail(const std::string& what, const std::string& found, const std::string& expected) const {
    if (identity_) identity_->check();
    fail_corrupt(path_, name_ + " " + what, found, expected);
}

void Record::check_whole() const {
    if (memory_->lost())
        fail_corrupt(path_, name_ + " was truncated while it was read", {}, {}, "open it again, or restore a copy");
}

void Record::check() const {
    if (identity_) identity_->check();
    check_whole();
}

void Record::verify(std::vector<Fault>& faults, unsigned threads) const {
    std::uint64_t end = head_.head_length;
    const auto gap = [&](std::uint64_t from, std::uint64_t to) {
        const std::uint8_t* bytes = memory_->data();
        if (std::any_of(bytes + from, bytes + to, [](std::uint8_t byte) { return byte != 0; }))
            faults.push_back({name_ + ": nonzero gap", head_.offset + from, to - from});
    };
    for (std::size_t i = 0; i < sections_.size(); ++i) {
        const SectionHead& head = heads_[i];
        sections_[i]->verify(faults, threads);
        gap(end, head.offset);
        gap(head.offset + head.length, head.table);
        end = head.table + 4 * blocks_of(head.length);
    }
    gap(end, head_.length);
}

}  // namespace idcwh::storage
