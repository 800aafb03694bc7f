// Database: codes with ids, keys and labels in one file, codes.bin, that loses nothing; searched where they lie.
//
//     auto db = idcwh::Database::open("codes.bin");
//     const auto view = db.snapshot();                       // what is there now
//     view.topk(queries, nq, 10, distances, ids);            // as index.hpp says
//     view.key(ids[0]);                                      // the path of the image
//
// A write has reached the disk when its function returns; after a crash at any moment the file holds what was
// acknowledged, and nothing of what was not, or all of it. One process writes at a time; any number read. The file is
// specified byte by byte in docs/codes-bin.md.
//
// Errors: SystemError for what the operating system refuses; Error(corrupt) for a corrupt file, with the place;
// Error(locked) when another handle writes to it; Error(unsupported) for a file of a later format version;
// Error(not_found) and Error(invalid_argument) for arguments. Errors about the file have its path. After an error the
// database is as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "index.hpp"

namespace idcwh {

// Identifies the content behind a key, such as the bytes of an image file, whatever its name and time: its size in
// bytes and a hash of it. Both 0: none.
struct Checksum {
    std::uint64_t size = 0, hash = 0;
    friend bool operator==(const Checksum&, const Checksum&) = default;
};

// Items to add: a view of the caller's memory.
struct NewItems {
    const std::uint8_t* codes = nullptr;  // size rows of code_bytes(bits)
    std::size_t size = 0;
    const std::int64_t* ids = nullptr;         // >= 0; null: they go on from the largest ever used
    const std::string_view* keys = nullptr;    // any bytes; an empty one is none. Null: no keys
    const std::string_view* labels = nullptr;  // any bytes; one without data is none. Null: no labels
    const std::uint32_t* mtime_signatures =
        nullptr;                          // what says whether the thing behind the key has changed. Null: all 0
    const Checksum* checksums = nullptr;  // null: none
};

namespace storage {
class FileView;
class Writer;
}  // namespace storage

// What a database held at one moment; see Snapshot. Texts live as long as it does.
class IDCWH_API DatabaseSnapshot : public Snapshot {
public:
    std::string_view key(std::int64_t id) const;    // no data: the item has none. Error(not_found)
    std::string_view label(std::int64_t id) const;  // no data: the item has none
    std::uint32_t mtime_signature(std::int64_t id) const;
    Checksum checksum(std::int64_t id) const;
    const std::string& manifest() const;  // JSON
    std::uint64_t commit() const;         // its number: grows with every change

    // The ids of the items with one of these keys, ascending.
    std::vector<std::int64_t> find(const std::string_view* keys, std::size_t count) const;
    // Calls item(id, key, label, mtime_signature) for every item, in the order of rows.
    template <class Body>
    void each(Body body) const {
        visit([](void* context, std::int64_t id, std::string_view key, std::string_view label,
                 std::uint32_t mtime_signature) { (*static_cast<Body*>(context))(id, key, label, mtime_signature); },
              &body);
    }
    // Writes the checksums of all items, in the order of rows: size() of them.
    void checksums(Checksum* out) const;
    // After texts of key() and label() were read: Error(corrupt) if the file was cut off meanwhile, so that they may be
    // zeros. All other functions check it themselves.
    void check_intact() const;
    [[deprecated("renamed to check_intact()")]] void check() const { check_intact(); }
    // All codes in one piece where they lie in the file, and null where they do not (several segments, or some
    // removed); valid as long as the snapshot. size() rows.
    const std::uint8_t* codes_in_place() const;

private:
    friend class Database;
    using Visitor = void (*)(void*, std::int64_t, std::string_view, std::string_view, std::uint32_t);
    void visit(Visitor visitor, void* context) const;
    explicit DatabaseSnapshot(std::shared_ptr<const storage::FileView> view);
    std::shared_ptr<const storage::FileView> view_;
};

struct DatabaseInfo {
    std::size_t items;    // that are there
    std::size_t removed;  // whose rows are still in the file
    std::size_t segments;
    std::uint64_t bytes;   // of the file
    std::uint64_t unused;  // of these, what compact() would give back
    std::uint64_t commit;
    std::uint64_t next_id;
};

// A corrupt range of the file.
struct CorruptRange {
    std::string what;  // record, section, block
    std::uint64_t offset, length;
};

// The result of Database::check().
struct Verification {
    std::vector<CorruptRange> corrupt;
    std::size_t items;       // that the file should hold
    std::size_t good_items;  // of these, in segments without a corrupt range
    std::uint64_t torn;      // bytes behind the last commit: of a write that never ended; the next writer removes them
};

class IDCWH_API Database {
public:
    enum class Access { read, write };
    // When what was written reaches the disk: with every change, or when the database is published, which is faster.
    enum class Durability { every_change, on_close };

    // Maps the file; nothing but its records' heads is read. Access::write locks it against other writers and removes
    // what a crashed one has left.
    static Database open(const std::string& path, Access access = Access::read);
    // A new database without items, open for writing. With replace it takes the place, and the permissions, of a
    // codes.bin or of an empty file; another file is Error(corrupt). A link is followed. With Durability::on_close the
    // file has a hidden name until publish() or close(), and nothing is at the path before; without them, and after a
    // crash, nothing is left.
    static Database create(const std::string& path, unsigned bits, std::string_view manifest = "{}",
                           bool replace = false, Durability durability = Durability::every_change);
    Database(Database&&) noexcept;
    Database& operator=(Database&&) noexcept;
    ~Database();  // as discard()

    unsigned bits() const;
    std::size_t size() const;
    const std::string& path() const;
    bool writable() const;
    DatabaseSnapshot snapshot() const;
    DatabaseInfo info() const;

    // Takes up what other processes have written or put in the place of the file since; true when there was something.
    bool refresh();

    // Adds items whose ids are new. assigned, where given, receives their ids.
    void add(const NewItems& items, std::int64_t* assigned = nullptr);
    // Removes items by id (Error(not_found) names the first that is not there, and then nothing is removed), and
    // returns how many; an id given twice counts once.
    std::size_t remove(const std::int64_t* ids, std::size_t count);
    // Removes every item with one of these keys; Error(not_found) names the first that no item has.
    std::size_t remove_keys(const std::string_view* keys, std::size_t count);
    // Replaces the items with these ids, all of which are there.
    void replace(const NewItems& items);
    // Removes some, then adds others, in one step: a crash leaves both or neither.
    void update(const std::int64_t* removed, std::size_t removed_count, const NewItems& items,
                std::int64_t* assigned = nullptr);
    void set_manifest(std::string_view json);

    // Writes what is in force into a new file, which takes the place of the old one.
    void compact();
    // Compacts by itself when more than half of a file of some size is out of use. On unless switched off.
    void set_auto_compact(bool on);

    // As Index::optimize, over the segments of the file: built in memory, for this handle, open for reading or writing.
    // What is added or taken up later is scanned until it is much, then it is covered as well, within the same memory.
    void optimize(const OptimizeOptions& options = {});
    void drop_structures();

    // Reads the whole file and reports every corrupt range.
    Verification check(unsigned threads = 0) const;
    [[deprecated("renamed to check()")]] Verification verify(unsigned threads = 0) const { return check(threads); }

    // Gives a database of Durability::on_close its path, compact and synced; later changes are durable one by one. An
    // error when another file is at the path meanwhile, unless it may be replaced; then the database is discarded.
    void publish();
    // Publishes, where that is due, and lets go of the file; snapshots stay as they are. Everything but closing again
    // is then an error.
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
