// A codes.bin as a log: the header, the marks, and the newest commit, which says which records are in force.
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
    std::vector<std::uint64_t> records;  // offsets of those in force, in the order in which they count
};

Header make_header(unsigned bits);
Header read_header(const File& file);
// The commit whose record begins there; Error(corrupt).
Commit read_commit(const File& file, const Header& header, std::uint64_t offset);

// The newest commit that is whole. What lies behind it was never acknowledged. Error(corrupt) when an acknowledged one
// is not there any more, or a mark is corrupt and the other one knows of no older commit: what it said is lost.
Commit newest_commit(const File& file, const Header& header);

// What is wrong with the first page: a header that is not this one any more, a mark that does not match its checksum, a
// gap that is not zero.
void verify_header_page(const File& file, const Header& header, std::vector<Fault>& faults);

// Whether the file begins with a valid header that is not this one.
bool is_another(const File& file, const Header& header);

// Whether the file ends with this commit and has its mark, as its writer left it.
bool ends_with(const File& file, const Header& header, const Commit& commit);

void write_mark(File& file, const Header& header, const Commit& commit);

}  // namespace idcwh::storage
