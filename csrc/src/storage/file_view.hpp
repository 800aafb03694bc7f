// FileView: the current records of one commit, which a snapshot of a database searches. Opening reads their heads.
// Their contents are read and checked on first use.
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
        bool tried = false;  // true if building structures was tried, even if none is faster than the scan
    };

    // older: an older view of the same file, whose items and structures are shared if they are still current; or null.
    FileView(const File& file, const Header& header, Commit commit, const FileView* older);
    // Copies a view with other structures in its entries.
    FileView(const FileView& view, std::vector<Entry> entries);

    std::span<const detail::Segment> segments() const override;
    std::span<const detail::Segment> id_segments() const override;
    // Throws Error(corrupt) if the file was overwritten or truncated, which makes all data read before unreliable.
    void check() const override;
    void check_identity() const { identity_->check(); }
    bool overwritten() const { return identity_->overwritten(); }
    std::size_t memory() const override;

    const Commit& commit() const { return commit_; }
    const std::vector<Entry>& entries() const { return entries_; }
    const std::string& manifest() const;
    std::uint64_t manifest_offset() const { return manifest_record_->head().offset; }
    std::uint64_t used() const { return used_; }  // bytes of header and current records
    // Returns one bit per row of an entry, set if the row is alive. Null: all are.
    const std::uint64_t* alive(std::size_t entry) const;

    struct RowRef {
        std::size_t entry, row;
    };
    std::optional<RowRef> find(std::int64_t id) const;
    RowRef at(std::int64_t id) const;  // throws Error(not_found)

    // Adds the faults of all current records, without those of items and removals that commit `since` or an earlier one
    // wrote. Returns the number of items in entries without faults.
    std::size_t verify(std::vector<Fault>& faults, unsigned threads, std::uint64_t since) const;

private:
    void load_alive() const;
    // Throws Error(corrupt) if two segments have one id, or an id is not below next_id.
    void check_ids(std::uint64_t since) const;

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
