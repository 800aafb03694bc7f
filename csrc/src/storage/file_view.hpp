// What a snapshot of a database looks at: the records that one commit put in force. Opening reads their heads; what is
// in them is read, and checked, when it is first asked for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "index/view.hpp"
#include "storage/commit_log.hpp"
#include "storage/segment_file.hpp"

namespace idcwh::storage {

class FileView : public detail::View {
public:
    struct Entry {
        std::shared_ptr<const Items> items;
        std::vector<std::shared_ptr<const Record>> removals;
        std::size_t dead = 0;
        std::shared_ptr<const detail::Structures> structures;  // over all rows; null: none
        bool tried = false;                                    // to build them, whether or not any pays
    };

    // Items that an older view has read already are shared with it (null: none), and so are their structures.
    // older: a view of the same file.
    FileView(const File& file, const Header& header, Commit commit, const FileView* older);
    // The same view but for the structures of its entries.
    FileView(const FileView& view, std::vector<Entry> entries);

    std::span<const detail::Segment> segments() const override;
    std::span<const detail::Segment> id_segments() const override;
    // Error(corrupt) when what was read is not to be relied on: the file was overwritten or cut off.
    void check() const override;
    void check_identity() const { identity_->check(); }
    bool overwritten() const { return identity_->overwritten(); }
    std::size_t memory() const override;

    const Commit& commit() const { return commit_; }
    const std::vector<Entry>& entries() const { return entries_; }
    const std::string& manifest() const;
    std::uint64_t manifest_offset() const { return manifest_record_->head().offset; }
    std::uint64_t used() const { return used_; }  // bytes of the file that are in force
    // A bit for each row of an entry; null: all are alive.
    const std::uint64_t* alive(std::size_t entry) const;

    struct RowRef {
        std::size_t entry, row;
    };
    std::optional<RowRef> find(std::int64_t id) const;
    RowRef at(std::int64_t id) const;  // or Error(not_found)

    // Faults of everything in force, and how many items are in entries without any.
    std::size_t verify(std::vector<Fault>& faults, unsigned threads) const;

private:
    void load_alive() const;

    std::string path_;
    std::shared_ptr<const Identity> identity_;
    Commit commit_;
    std::vector<Entry> entries_;
    std::shared_ptr<const Record> commit_record_, manifest_record_;
    std::uint64_t used_ = 0;

    mutable std::mutex loading_;
    mutable std::atomic<bool> alive_loaded_{false}, ids_loaded_{false}, codes_loaded_{false}, manifest_loaded_{false};
    mutable std::vector<std::vector<std::uint64_t>> alive_;
    mutable std::vector<detail::Segment> id_segments_, segments_;
    mutable std::string manifest_;
};

}  // namespace idcwh::storage
