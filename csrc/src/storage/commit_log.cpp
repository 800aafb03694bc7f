// See commit_log.hpp.
#include "storage/commit_log.hpp"

#include <idcwh/crc32c.hpp>
#include <idcwh/error.hpp>
#include <idcwh/search.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

namespace idcwh::storage {
namespace {

constexpr std::uint64_t max_next_id = std::uint64_t{1} << 63;

bool is_zero(const Mark& mark) {
    static constexpr Mark never{};
    return std::memcmp(&mark, &never, sizeof mark) == 0;
}

Mark mark_of(const Header& header, const Commit& commit) {
    Mark mark{};
    std::memcpy(mark.magic, "MARK", 4);
    mark.commit = commit.number;
    mark.offset = commit.offset;
    mark.end = commit.end;
    mark.crc = crc32c(&mark, sizeof mark - 4, header.crc);
    return mark;
}

std::optional<Mark> read_mark(const File& file, const Header& header, std::uint64_t offset) {
    Mark mark;
    file.read(offset, &mark, sizeof mark);
    if (std::memcmp(mark.magic, "MARK", 4) || crc32c(&mark, sizeof mark - 4, header.crc) != mark.crc)
        return std::nullopt;
    return mark;
}

Commit parse(const Record& record) {
    const RecordHead& head = record.head();
    if (head.next_id() > max_next_id)
        record.fail("has an invalid next id", std::to_string(head.next_id()), "at most 2^63");
    const Section& directory = record.section(SectionKind::directory);
    if (head.kind != Kind::commit || directory.size() % 8 || head.number() != head.commit)
        record.fail("is not a valid commit");
    Commit commit;
    commit.number = head.number();
    commit.offset = head.offset;
    commit.end = head.offset + head.length;
    commit.items = head.items();
    commit.next_id = head.next_id();
    const auto* records = directory.all<std::uint64_t>();
    commit.records.assign(records, records + directory.size() / 8);
    return commit;
}

}  // namespace

Header make_header(unsigned bits) {
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.version = version;
    header.bits = bits;
    std::random_device random;
    for (std::size_t i = 0; i < sizeof header.file_id; i += 4) {
        const std::uint32_t word = random();
        std::memcpy(header.file_id + i, &word, 4);
    }
    header.crc = crc32c(&header, sizeof header - 4);
    return header;
}

Header read_header(const File& file) {
    const std::uint64_t size = file.size();
    Header header;
    if (size < sizeof header)
        fail_corrupt(file.path(), "is not a codes.bin", std::to_string(size) + " bytes",
                     "at least " + std::to_string(sizeof header), "");
    file.read(0, &header, sizeof header);
    if (std::memcmp(header.magic, magic, sizeof magic))
        fail_corrupt(file.path(), "is not a codes.bin", {}, "a file that begins with \\x89IDCWH", "");
    if (crc32c(&header, sizeof header - 4) != header.crc)
        fail_corrupt(file.path(), "its header (byte 0) does not match its checksum");
    if (header.version != version)
        throw Error(ErrorCode::unsupported, {.path = file.path(),
                                             .problem = "has a format version that is not supported",
                                             .found = std::to_string(header.version),
                                             .expected = std::to_string(version)});
    if (header.bits < 1 || header.bits > max_bits)
        fail_corrupt(file.path(), "its code length is invalid", std::to_string(header.bits) + " bits",
                     "1 to " + std::to_string(max_bits));
    if (size < first_record)
        fail_corrupt(file.path(), "is truncated before its first record", std::to_string(size) + " bytes",
                     "at least " + std::to_string(first_record));
    return header;
}

Commit newest_commit(const File& file, const Header& header) {
    Commit newest;
    std::optional<Mark> mark;
    std::vector<std::uint64_t> corrupt;  // offsets of corrupt marks
    for (const std::uint64_t offset : mark_offsets) {
        Mark there;
        file.read(offset, &there, sizeof there);
        const auto found = read_mark(file, header, offset);
        if (!found && !is_zero(there)) corrupt.push_back(offset);
        if (found && (!mark || found->commit > mark->commit)) mark = found;
    }
    const std::uint64_t size = file.size();  // read after the marks, because a writer may extend the file now
    if (mark) {
        if (mark->end > size)
            fail_corrupt(file.path(), "is truncated before the end of commit " + std::to_string(mark->commit),
                         std::to_string(size) + " bytes", "at least " + std::to_string(mark->end));
        newest = parse(*Record::read(file, header.crc, mark->offset, size));
        if (newest.number != mark->commit || newest.end != mark->end)
            fail_corrupt(file.path(), "the commit at byte " + std::to_string(mark->offset) + " does not match its mark",
                         "number " + std::to_string(newest.number), "number " + std::to_string(mark->commit));
    }
    // Newer commits whose mark did not reach the disk, or that another process is about to mark. Their numbers ascend,
    // with a gap after a failed write.
    try {
        for (std::uint64_t at = newest.end;;) {
            const auto head = Record::peek(file, header.crc, at, size);
            if (!head || head->commit <= newest.number) break;
            at += head->length;
            if (head->kind == Kind::commit) newest = parse(*Record::read(file, header.crc, head->offset, size));
        }
    } catch (const Error&) {
        // Incomplete, or truncated by its writer during this read. In both cases it was never acknowledged.
    }
    // A mark is written after its commit is on the disk. So a torn or incomplete mark has a commit newer than that of
    // the other mark. If there is none, the file has lost an acknowledged commit. Both marks are never torn at once.
    if (corrupt.size() == 2 || (!corrupt.empty() && mark && newest.number == mark->commit))
        fail_corrupt(file.path(), "the mark at byte " + std::to_string(corrupt[0]) +
                                      " does not match its checksum, and its commit is missing");
    if (newest.number == 0) fail_corrupt(file.path(), "has no complete commit");
    return newest;
}

Commit read_commit(const File& file, const Header& header, std::uint64_t offset) {
    return parse(*Record::read(file, header.crc, offset, file.size()));
}

void verify_header_page(const File& file, const Header& header, std::vector<Fault>& faults) {
    std::vector<unsigned char> page(first_record);
    file.read(0, page.data(), page.size());
    if (std::memcmp(page.data(), &header, sizeof header))
        faults.push_back({"header: has changed since the file was opened", 0, sizeof header});
    for (const std::uint64_t offset : mark_offsets) {
        Mark mark;
        bool good = false;
        for (int attempt = 0; attempt < 3 && !good; ++attempt) {  // a writer may just be writing it
            file.read(offset, &mark, sizeof mark);
            good = is_zero(mark) || read_mark(file, header, offset);
        }
        if (!good) faults.push_back({"mark: does not match its checksum", offset, sizeof mark});
    }
    std::fill_n(page.begin(), sizeof(Header), 0);
    for (const std::uint64_t offset : mark_offsets)
        std::fill_n(page.begin() + static_cast<std::ptrdiff_t>(offset), sizeof(Mark), 0);
    if (const auto at = std::find_if(page.begin(), page.end(), [](auto byte) { return byte != 0; }); at != page.end())
        faults.push_back({"header page: nonzero gap", static_cast<std::uint64_t>(at - page.begin()), 1});
}

bool is_another(const File& file, const Header& header) {
    try {
        const Header there = read_header(file);
        return std::memcmp(&there, &header, sizeof header) != 0;
    } catch (const Error&) {
        return false;
    }
}

bool ends_with(const File& file, const Header& header, const Commit& commit) {
    Header there;
    Mark mark;
    if (file.size() != commit.end) return false;
    file.read(0, &there, sizeof there);
    file.read(mark_offsets[commit.number % 2], &mark, sizeof mark);
    const Mark expected = mark_of(header, commit);
    return std::memcmp(&there, &header, sizeof header) == 0 && std::memcmp(&mark, &expected, sizeof mark) == 0;
}

void write_mark(File& file, const Header& header, const Commit& commit) {
    const Mark mark = mark_of(header, commit);
    file.write(mark_offsets[commit.number % 2], &mark, sizeof mark);
}

}  // namespace idcwh::storage
