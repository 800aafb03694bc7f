// The writing half of a database: a change becomes records behind the end of the file, and a commit that puts them in
// force.
#pragma once

#include <idcwh/database.hpp>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "storage/file_view.hpp"
#include "storage/item_source.hpp"

namespace idcwh::storage {

struct Change {
    std::vector<FileView::RowRef> removed;  // each once
    const Source* added = nullptr;
    std::optional<std::string_view> manifest;
};

class Writer {
public:
    Writer(File& file, const Header& header) : file_(file), header_(header) {}

    // Returns what is in force now. When it throws, the file is as it was; when even that cannot be made sure, usable()
    // is false from then on.
    std::shared_ptr<const FileView> apply(const FileView& view, const Change& change);
    bool usable() const { return usable_; }
    void give_up() { usable_ = false; }

private:
    Commit write(const FileView& view, const Change& change);
    File& file_;
    const Header& header_;
    bool usable_ = true;
    // The last number that was tried: a reader may have seen a commit that failed, and must not take another for it.
    std::uint64_t tried_ = 0;
};

// Writes the header, and what a database consists of, into a new file, up to its first mark; everything is synced.
Commit write_new(File& file, const Header& header, std::uint64_t number, std::string_view manifest,
                 const std::vector<const Source*>& items, std::uint64_t next_id);

}  // namespace idcwh::storage
