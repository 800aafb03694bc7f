// Writer: appends the records of a change to a database file, then the commit record that makes them current.
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
    std::vector<FileView::RowRef> removed;  // unique
    const Source* added = nullptr;
    std::optional<std::string_view> manifest;
};

class Writer {
public:
    Writer(File& file, const Header& header) : file_(file), header_(header) {}

    // Applies a change and returns the new view. An error leaves the file unchanged. If that cannot be guaranteed,
    // usable() returns false from then on.
    std::shared_ptr<const FileView> apply(const FileView& view, const Change& change);
    bool usable() const { return usable_; }
    void give_up() { usable_ = false; }

private:
    Commit write(const FileView& view, const Change& change);
    File& file_;
    const Header& header_;
    bool usable_ = true;
    // The last commit number that was tried. It is not used again, because a reader may have read the failed commit.
    std::uint64_t tried_ = 0;
};

// Writes a complete database to a new file, from the header to the first mark, and syncs it.
Commit write_new(File& file, const Header& header, std::uint64_t number, std::string_view manifest,
                 const std::vector<const Source*>& items, std::uint64_t next_id);

}  // namespace idcwh::storage
