// Database: codes with ids, keys and labels in one crash-safe file, codes.bin, which is memory-mapped and searched.
//
//     auto db = idcwh::Database::open("codes.bin");
//     const auto snapshot = db.snapshot();             // the current content
//     snapshot.topk(queries, nq, 10, distances, ids);  // as in index.hpp
//     snapshot.key(ids[0]);                            // the path of the image
//
// Durability: a change is durable when its function returns. After a crash, the file contains every change whose
// function had returned. It contains any other change completely or not at all. docs/codes-bin.md specifies the file.
//
// Threads and processes: one handle in one process may have the file open for writing. Any number of handles may have
// it open for reading. Any number of threads may take and search snapshots while another thread changes or refreshes
// the handle.
//
// Errors: an error leaves the database unchanged. Errors about the file contain its path.
//     SystemError              a file operation that failed
//     Error(corrupt)           a corrupt file; the message contains the position
//     Error(locked)            another handle has the file open for writing
//     Error(unsupported)       a later format version
//     Error(not_found)         an id or key that is missing
//     Error(invalid_argument)  an invalid argument
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "index.hpp"

namespace idcwh {

// Size in bytes and hash of the content that a key names, such as an image file. It identifies the content under
// another name or modification time. Both 0: none.
struct Checksum {
    std::uint64_t size = 0, hash = 0;
    friend bool operator==(const Checksum&, const Checksum&) = default;
};

// Items to add: a view of the caller's memory.
struct NewItems {
    const std::uint8_t* codes = nullptr;  // size rows of code_bytes(bits) bytes
    std::size_t size = 0;
    const std::int64_t* ids = nullptr;       // [size], >= 0, unique; null: they continue from the largest id ever used
    const std::string_view* keys = nullptr;  // [size], any bytes; empty: the item has no key. Null: no keys
    const std::string_view* labels = nullptr;  // [size], any bytes; data null: the item has no label. Null: no labels
    // [size], values that change when the file of an item changes. Null: all 0.
    const std::uint32_t* mtime_signatures = nullptr;
    const Checksum* checksums = nullptr;  // [size]; null: none
};

namespace storage {
class FileView;
class Writer;
}  // namespace storage

// The content of a database at one moment, which later changes do not affect. Its strings are valid as long as the
// snapshot.
class IDCWH_API DatabaseSnapshot : public Snapshot {
public:
    // Return the data of an item. Throw Error(not_found) if the id is missing. A string_view whose data() is null means
    // that the item has no key or no label.
    std::string_view key(std::int64_t id) const;
    std::string_view label(std::int64_t id) const;
    std::uint32_t mtime_signature(std::int64_t id) const;
    Checksum checksum(std::int64_t id) const;
    const std::string& manifest() const;  // JSON
    std::uint64_t commit() const;         // number of the commit, which grows with every change

    // Returns the ids of the items with one of these keys, ascending. The first call reads all keys and builds a table
    // of 6 to 8 bytes per item, which later calls use, also those of later snapshots of the handle.
    std::vector<std::int64_t> find(const std::string_view* keys, std::size_t count) const;
    // Calls item(id, key, label, mtime_signature) for every item, in the order of rows.
    template <class Body>
    void each(Body body) const {
        visit([](void* context, std::int64_t id, std::string_view key, std::string_view label,
                 std::uint32_t mtime_signature) { (*static_cast<Body*>(context))(id, key, label, mtime_signature); },
              &body);
    }
    // Returns the labels and the number of items with each, in no particular order.
    std::vector<std::pair<std::string_view, std::size_t>> label_counts() const;
    // Writes the checksums of all items, in the order of rows: out[size()].
    void checksums(Checksum* out) const;
    // Throws Error(corrupt) if the file was truncated while it was mapped. Earlier results of key() and label() may
    // then contain zeros. All other functions make this check themselves.
    void check_intact() const;
    [[deprecated("renamed to check_intact()")]] void check() const { check_intact(); }
    // Returns a pointer to all codes in the mapped file, size() rows, valid as long as the snapshot. Returns null if
    // the codes are not contiguous: there are several segments, or removed items.
    const std::uint8_t* codes_in_place() const;

private:
    friend class Database;
    using Visitor = void (*)(void*, std::int64_t, std::string_view, std::string_view, std::uint32_t);
    void visit(Visitor visitor, void* context) const;
    explicit DatabaseSnapshot(std::shared_ptr<const storage::FileView> view);
    std::shared_ptr<const storage::FileView> view_;
};

struct DatabaseInfo {
    std::size_t items;    // number of items
    std::size_t removed;  // removed items whose rows are still in the file
    std::size_t segments;
    std::uint64_t bytes;   // size of the file
    std::uint64_t unused;  // bytes that compact() would free
    std::uint64_t commit;
    std::uint64_t next_id;
};

// A corrupt range of the file.
struct CorruptRange {
    std::string what;  // name of the record, section or block
    std::uint64_t offset, length;
};

// The result of Database::check().
struct Verification {
    std::vector<CorruptRange> corrupt;
    std::size_t items;       // number of items according to the last commit
    std::size_t good_items;  // items in segments without a corrupt range
    std::uint64_t torn;      // bytes after the last commit, of an unfinished change; the next writer removes them
};

// An open database file. Several threads may change it, one at a time.
class IDCWH_API Database {
public:
    enum class Access { read, write };
    // The time of the sync to disk: before each change returns, or once when the database is published (faster).
    enum class Durability { every_change, on_close };

    // Maps the file and reads only the heads of its records. Access::write locks it against other writers and removes
    // the unfinished change of a writer that crashed.
    static Database open(const std::string& path, Access access = Access::read);
    // Creates a database without items, open for writing. With `replace` it replaces a codes.bin or an empty file and
    // keeps its permissions. Throws Error(corrupt) if `path` is any other file. Symbolic links are followed. With
    // Durability::on_close the file has a hidden name until publish() or close(). Without these calls, or after a
    // crash, no file remains.
    static Database create(const std::string& path, unsigned bits, std::string_view manifest = "{}",
                           bool replace = false, Durability durability = Durability::every_change);
    Database(Database&&) noexcept;
    Database& operator=(Database&&) noexcept;
    ~Database();  // like discard()

    unsigned bits() const;
    std::size_t size() const;
    const std::string& path() const;
    bool writable() const;
    DatabaseSnapshot snapshot() const;
    DatabaseInfo info() const;

    // Reads the changes of other processes, or the file that has replaced this one. Returns true if there were any.
    bool refresh();

    // Adds items with new ids. `assigned`, which may be null, receives the ids.
    void add(const NewItems& items, std::int64_t* assigned = nullptr);
    // Removes items by id and returns their number; repeated ids count once. If an id is missing, removes nothing and
    // throws Error(not_found) that names the first missing id.
    std::size_t remove(const std::int64_t* ids, std::size_t count);
    // Removes every item with one of these keys and returns their number. If a key is missing, removes nothing and
    // throws Error(not_found) that names the first missing key.
    std::size_t remove_keys(const std::string_view* keys, std::size_t count);
    // Replaces the items with these ids. If an id is missing, throws Error(not_found) and changes nothing.
    void replace(const NewItems& items);
    // Removes items by id and adds others in one change. After a crash the file contains both changes or neither.
    void update(const std::int64_t* removed, std::size_t removed_count, const NewItems& items,
                std::int64_t* assigned = nullptr);
    void set_manifest(std::string_view json);

    // Writes the current items to a new file, which replaces the old one.
    void compact();
    // Turns automatic compaction on (the default) or off. It runs after a change that leaves more than half of
    // the file, and more than 16 MiB, unused.
    void set_auto_compact(bool on);

    // Builds structures like Index::optimize, over the segments of the file. The handle may be open for reading. The
    // structures are in memory and belong to this handle. Later items are scanned until there are enough to extend the
    // structures, within the same memory limit.
    void optimize(const OptimizeOptions& options = {});
    void drop_structures();

    // Reads the whole file and reports every corrupt range. `since`, the number of a commit, leaves out the items that
    // this commit or an earlier one wrote.
    Verification check(unsigned threads = 0, std::uint64_t since = 0) const;
    [[deprecated("renamed to check()")]] Verification verify(unsigned threads = 0) const { return check(threads); }

    // Compacts and syncs a database of Durability::on_close and moves it to its path. Each later change is durable when
    // it returns. Throws Error and discards the database if there is a file at the path that it may not replace.
    void publish();
    // Publishes a database of Durability::on_close, then closes the file. Snapshots remain valid. Any later call except
    // close() is an error.
    void close();
    // Closes without publishing.
    void discard() noexcept;

    struct Impl;

private:
    explicit Database(std::unique_ptr<Impl> impl);
    Impl& open_impl() const;
    std::unique_ptr<Impl> impl_;
};

}  // namespace idcwh
