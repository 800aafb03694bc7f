// The header, the marks and the commits of a codes.bin. The newest commit lists the current records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/file.hpp"
#include "storage/format.hpp"
#include "storage/record.hpp"

namespace idcwh::storage {

struct Commit {
    std::uint64_t number = 0;  // 1 for the first
    std::uint64_t offset = first_record, end = first_record;
    std::uint64_t items = 0;
    std::uint64_t next_id = 0;
    std::vector<std::uint64_t> records;  // offsets of the current records, in the order in which they apply
};

Header make_header(unsigned bits);
Header read_header(const File& file);
// Reads the commit record at this offset. Throws Error(corrupt).
Commit read_commit(const File& file, const Header& header, std::uint64_t offset);

// Returns the newest complete commit. Bytes after it were never acknowledged. Throws Error(corrupt) if an acknowledged
// commit is missing, or if a corrupt mark makes that impossible to exclude.
Commit newest_commit(const File& file, const Header& header);

// Adds the faults of the first page to `faults`: a changed header, a mark that does not match its checksum, a nonzero
// gap.
void verify_header_page(const File& file, const Header& header, std::vector<Fault>& faults);

// Returns true if the file begins with another valid header.
bool is_another(const File& file, const Header& header);

// Returns true if the file ends with this commit and contains its mark.
bool ends_with(const File& file, const Header& header, const Commit& commit);

void write_mark(File& file, const Header& header, const Commit& commit);

}  // namespace idcwh::storage
