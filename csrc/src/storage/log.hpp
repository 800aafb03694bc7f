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

// The newest commit that is whole. What lies behind it was never acknowledged. Error(damaged) when an acknowledged one
// is not there any more.
Commit newest_commit(const File& file, const Header& header);

// Whether the rest of the header page is zero, as it was written.
void verify_header_page(const File& file, std::vector<Fault>& faults);

void write_mark(File& file, const Header& header, const Commit& commit);

}  // namespace idcwh::storage
