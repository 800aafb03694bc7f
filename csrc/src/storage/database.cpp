// Database: who holds the file, who may write, and which view is the newest.
#include <idcwh/database.hpp>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <unordered_set>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "storage/writer.hpp"

namespace idcwh {

using storage::Change;
using storage::Commit;
using storage::File;
using storage::FileView;
using storage::NewSource;
using storage::Source;
using storage::StoredSource;

namespace {

constexpr std::int64_t max_id = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t least_unused = std::uint64_t{16} << 20;  // bytes for which compacting is not worth the while

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

void check_bits(unsigned bits) {
    if (bits < 1 || bits > max_bits)
        fail("bits must be 1 to " + std::to_string(max_bits) + ", not " + std::to_string(bits));
}

// The file at this path, locked for us.
File locked(const std::string& path, bool write) {
    for (;;) {
        File file = File::open(path, write);
        if (!file.lock())
            throw Error(ErrorCode::locked,
                        path + ": somebody else is writing to it; try again when they have closed it");
        if (file.is_at(path)) return file;  // else it was compacted or replaced between opening and locking
    }
}

unsigned umask_mode() {
    const mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~static_cast<unsigned>(mask);
}

// Ids that are >= 0 and none twice.
void check_given(const std::int64_t* ids, std::size_t size) {
    bool ascending = true;
    for (std::size_t i = 0; i < size; ++i) {
        if (ids[i] < 0) fail("ids must be >= 0, not " + std::to_string(ids[i]));
        ascending &= i == 0 || ids[i - 1] < ids[i];
    }
    if (ascending) return;
    std::vector<std::int64_t> sorted(ids, ids + size);
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) fail("ids must be unique, but " + std::to_string(*twice) + " is given twice");
}

void check_items(const NewItems& items, unsigned bits, std::uint64_t next_id) {
    if (items.size && !items.codes) fail("codes is null, but size is " + std::to_string(items.size));
    if (items.size > static_cast<std::size_t>(max_id) / 8 / code_bytes(bits))
        fail("size is " + std::to_string(items.size) + ": more codes than the address space holds");
    if (!padding_is_zero({items.codes, items.size, bits}))
        fail("codes have bits set behind the last of their " + std::to_string(bits) + " bits; padding must be zero");
    for (std::size_t i = 0; items.keys && i < items.size; ++i)
        if (items.keys[i].size() > storage::max_text) fail("keys: one has more than 4 GiB");
    for (std::size_t i = 0; items.labels && i < items.size; ++i)
        if (items.labels[i].size() > storage::max_text / 2) fail("labels: one has more than 2 GiB");
    if (items.ids)
        check_given(items.ids, items.size);
    else if (static_cast<std::uint64_t>(max_id) + 1 - next_id < items.size)
        fail("ids: none are left after " + std::to_string(next_id - 1) + "; give them explicitly");
}

void put_assigned(const NewItems& items, std::uint64_t first, std::int64_t* assigned) {
    for (std::size_t i = 0; assigned && i < items.size; ++i)
        assigned[i] = items.ids ? items.ids[i] : static_cast<std::int64_t>(first + i);
}

}  // namespace

// ---- DatabaseSnapshot -----------------------------------------------------------------------------------------------

DatabaseSnapshot::DatabaseSnapshot(std::shared_ptr<const FileView> view) : Snapshot(view), view_(std::move(view)) {}

std::string_view DatabaseSnapshot::key(std::int64_t id) const {
    const auto place = view_->at(id);
    const std::string_view key = view_->entries()[place.entry].items->key(place.row);
    view_->check();
    return key;
}
std::string_view DatabaseSnapshot::label(std::int64_t id) const {
    const auto place = view_->at(id);
    const std::string_view label = view_->entries()[place.entry].items->label(place.row);
    view_->check();
    return label;
}
std::uint32_t DatabaseSnapshot::stamp(std::int64_t id) const {
    const auto place = view_->at(id);
    const std::uint32_t stamp = view_->entries()[place.entry].items->stamp(place.row);
    view_->check();
    return stamp;
}
const std::string& DatabaseSnapshot::manifest() const { return view_->manifest(); }
std::uint64_t DatabaseSnapshot::commit() const { return view_->commit().number; }

void DatabaseSnapshot::visit(Visitor visitor, void* context) const {
    const auto segments = view_->id_segments();
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const auto& items = *view_->entries()[i].items;
        for (std::size_t row = 0; row < segments[i].rows; ++row)
            if (segments[i].is_alive(row))
                visitor(context, segments[i].id(row), items.key(row), items.label(row), items.stamp(row));
    }
    view_->check();
}

std::vector<std::int64_t> DatabaseSnapshot::find(const std::string_view* keys, std::size_t count) const {
    const std::unordered_set<std::string_view> wanted(keys, keys + count);
    std::vector<std::int64_t> found;
    const auto segments = view_->id_segments();
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const auto& items = *view_->entries()[i].items;
        if (!items.has_keys()) continue;
        for (std::size_t row = 0; row < segments[i].rows; ++row) {
            if (!segments[i].is_alive(row)) continue;
            const std::string_view key = items.key(row);
            if (!key.empty() && wanted.contains(key)) found.push_back(segments[i].id(row));
        }
    }
    view_->check();
    std::sort(found.begin(), found.end());
    return found;
}

const std::uint8_t* DatabaseSnapshot::codes_in_place() const {
    const auto segments = view_->segments();
    return segments.size() == 1 && !segments[0].alive ? segments[0].codes : nullptr;
}

// ---- Database -------------------------------------------------------------------------------------------------------

struct Database::Impl {
    std::string path;
    File file;
    storage::Header header;
    bool writing = false;
    bool auto_compact = true;
    pid_t process = getpid();
    std::unique_ptr<storage::Writer> writer;

    mutable std::mutex changing;  // one change or refresh at a time
    mutable std::mutex looking;   // at view
    std::shared_ptr<const FileView> view;

    ~Impl() { close(); }
    // Whoever is in the middle of something ends it first, whoever comes later is told.
    void close() {
        const std::lock_guard turn(changing);
        if (writing && process == getpid() && file.is_open()) {
            try {
                file.sync();  // the last mark
            } catch (const Error&) {
                // It spares a search and nothing else.
            }
            file.unlock();
        }
        file.close();
        show(std::shared_ptr<const FileView>());
    }
    std::shared_ptr<const FileView> newest() const {
        const std::lock_guard turn(looking);
        if (!view) fail("the database is closed");
        return view;
    }
    void show(Commit commit) {
        show(std::make_shared<const FileView>(file, header, std::move(commit), newest().get()));
    }
    void show(std::shared_ptr<const FileView> next) {
        const std::lock_guard turn(looking);
        view.swap(next);
    }
    void check_writable() const {
        newest();  // or it is closed
        if (!writing) fail(path + ": is open for reading; open it for writing to change it");
        if (process != getpid())
            fail(path + ": was opened for writing before a fork; the child must open it for itself");
        if (!writer->usable()) fail(path + ": a write has failed and could not be undone; open it again");
    }
    void change(const Change& what) {
        show(std::shared_ptr<const FileView>(writer->apply(*newest(), what)));
        const auto now = newest();
        const std::uint64_t unused = file.size() - now->used();
        if (!auto_compact || unused < least_unused || unused < now->used()) return;
        try {
            compact();
        } catch (const std::exception&) {  // no room for a second file, say: the change itself is done
        }
    }
    void compact();
    std::size_t update(const std::int64_t* removed, std::size_t removed_count, const NewItems& items,
                       std::int64_t* assigned);
};

void Database::Impl::compact() {
    const auto now = newest();
    const std::string place = storage::resolved(path);
    File out = File::temporary_beside(place);
    const std::string temporary = out.path();
    try {
        const storage::Header fresh = storage::make_header(header.bits);
        std::vector<StoredSource> kept;
        for (std::size_t i = 0; i < now->entries().size(); ++i) {
            const auto& entry = now->entries()[i];
            kept.emplace_back(entry.items, now->alive(i), entry.items->rows() - entry.dead, 0);
        }
        std::vector<const Source*> sources;
        for (const auto& source : kept) sources.push_back(&source);
        Commit commit =
            write_new(out, fresh, now->commit().number + 1, now->manifest(), sources, now->commit().next_id);
        now->check();
        out.set_mode(file.mode());
        out.call(path);
        auto next = std::make_shared<const FileView>(out, fresh, std::move(commit), nullptr);
        auto next_writer = std::make_unique<storage::Writer>(file, header);
        storage::rename(temporary, place, true);
        file = std::move(out);
        header = fresh;
        writer = std::move(next_writer);
        show(std::move(next));
    } catch (...) {
        storage::remove(temporary);
        throw;
    }
    try {
        storage::sync_folder(place);
    } catch (...) {
        // After a power cut the old file could be back, without what this one will have been given meanwhile.
        writer->give_up();
        throw;
    }
}

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Database::Impl& Database::open_impl() const {
    if (!impl_) fail("the database is closed");
    return *impl_;
}

Database Database::open(const std::string& path, Access access) {
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    impl->writing = access == Access::write;
    impl->file = impl->writing ? locked(path, true) : File::open(path, false);
    impl->header = storage::read_header(impl->file);
    Commit commit = storage::newest_commit(impl->file, impl->header);
    if (impl->writing) {
        impl->writer = std::make_unique<storage::Writer>(impl->file, impl->header);
    }
    impl->view = std::make_shared<const FileView>(impl->file, impl->header, commit, nullptr);
    if (impl->writing) {
        const std::string place = storage::resolved(path);
        storage::remove_stale(place);
        if (impl->file.size() > commit.end) impl->file.truncate(commit.end);
        // Its last writer may have died before the commit, or the file's name, reached the disk; from now on it counts.
        impl->file.sync();
        storage::sync_folder(place);
        storage::write_mark(impl->file, impl->header, commit);
    }
    return Database(std::move(impl));
}

Database Database::create(const std::string& path, unsigned bits, std::string_view manifest, bool replace) {
    DatabaseBuilder builder(path, bits, manifest, replace);
    return builder.publish_open();
}

unsigned Database::bits() const { return open_impl().header.bits; }
std::size_t Database::size() const { return open_impl().newest()->live; }
const std::string& Database::path() const { return open_impl().path; }
bool Database::writable() const { return open_impl().writing; }
DatabaseSnapshot Database::snapshot() const { return DatabaseSnapshot(open_impl().newest()); }
void Database::set_auto_compact(bool on) { open_impl().auto_compact = on; }
void Database::close() {
    if (impl_) impl_->close();
}

DatabaseInfo Database::info() const {
    const Impl& impl = open_impl();
    const std::lock_guard turn(impl.changing);
    const auto view = impl.newest();
    DatabaseInfo info{};
    info.items = view->live;
    for (const auto& entry : view->entries()) info.removed += entry.dead;
    info.segments = view->entries().size();
    info.bytes = impl.file.size();
    info.unused = info.bytes - std::min(info.bytes, view->used());
    info.commit = view->commit().number;
    info.next_id = view->next_id;
    return info;
}

bool Database::refresh() {
    Impl& impl = open_impl();
    if (impl.writing) return false;  // nobody else writes
    const std::lock_guard turn(impl.changing);
    const std::uint64_t known = impl.newest()->commit().number;
    if (!impl.file.is_at(impl.path)) {
        File file = File::open(impl.path, false);
        const storage::Header header = storage::read_header(file);
        if (header.bits != impl.header.bits)
            throw Error(ErrorCode::damaged, impl.path + ": was replaced by a database of " +
                                                std::to_string(header.bits) + " bits, not " +
                                                std::to_string(impl.header.bits) + "; open it anew");
        auto view = std::make_shared<const FileView>(file, header, storage::newest_commit(file, header), nullptr);
        impl.file = std::move(file);
        impl.header = header;
        impl.show(std::move(view));
        return true;
    }
    Commit commit = storage::newest_commit(impl.file, impl.header);
    if (commit.number == known) return false;
    impl.show(std::move(commit));
    return true;
}

void Database::add(const NewItems& items, std::int64_t* assigned) { update(nullptr, 0, items, assigned); }

std::size_t Database::remove(const std::int64_t* ids, std::size_t count) {
    return open_impl().update(ids, count, {}, nullptr);
}

std::size_t Database::remove_keys(const std::string_view* keys, std::size_t count) {
    if (count && !keys) fail("keys is null, but count is " + std::to_string(count));
    const auto view = snapshot();
    const auto ids = view.find(keys, count);
    std::unordered_set<std::string_view> found;
    for (const auto id : ids) found.insert(view.key(id));
    for (std::size_t i = 0; i < count; ++i)
        if (!found.contains(keys[i]))
            throw Error(ErrorCode::not_found, "no item has the key " + std::string(keys[i]) + " in " + path());
    return remove(ids.data(), ids.size());
}

void Database::replace(const NewItems& items) {
    if (items.size && !items.ids) fail("ids is null; replacing goes by id");
    update(items.ids, items.size, items, nullptr);
}

void Database::update(const std::int64_t* removed, std::size_t removed_count, const NewItems& items,
                      std::int64_t* assigned) {
    open_impl().update(removed, removed_count, items, assigned);
}

// Returns how many were removed.
std::size_t Database::Impl::update(const std::int64_t* removed, std::size_t removed_count, const NewItems& items,
                                   std::int64_t* assigned) {
    const std::lock_guard turn(changing);
    check_writable();
    if (removed_count && !removed) fail("ids is null, but count is " + std::to_string(removed_count));
    const auto view = newest();
    check_items(items, header.bits, view->next_id);
    Change change;
    std::unordered_set<std::int64_t> gone;
    for (std::size_t i = 0; i < removed_count; ++i)
        if (gone.insert(removed[i]).second) change.removed.push_back(view->at(removed[i]));
    for (std::size_t i = 0; items.ids && i < items.size; ++i)
        if (static_cast<std::uint64_t>(items.ids[i]) < view->next_id && !gone.contains(items.ids[i]) &&
            view->find(items.ids[i]))
            fail("ids must be new, but " + std::to_string(items.ids[i]) + " is in the database already");
    if (items.size == 0 && change.removed.empty()) return 0;
    const std::uint64_t first = view->next_id;
    const NewSource source(items, header.bits, static_cast<std::int64_t>(first));
    change.added = &source;
    this->change(change);
    put_assigned(items, first, assigned);
    return change.removed.size();
}

void Database::set_manifest(std::string_view json) {
    Impl& impl = open_impl();
    const std::lock_guard turn(impl.changing);
    impl.check_writable();
    Change change;
    change.manifest = json;
    impl.change(change);
}

void Database::compact() {
    Impl& impl = open_impl();
    const std::lock_guard turn(impl.changing);
    impl.check_writable();
    impl.compact();
}

Verification Database::verify(unsigned threads) const {
    const Impl& impl = open_impl();
    Verification result{};
    std::vector<storage::Fault> faults;
    std::shared_ptr<const FileView> view;
    {
        const std::lock_guard turn(impl.changing);  // the file stays this one
        const auto known = impl.newest();
        result.items = known->live;
        const std::uint64_t size = impl.file.size();
        try {
            storage::verify_header_page(impl.file, impl.header, faults);
            // From the file, whatever was read of it before.
            Commit commit = storage::read_commit(impl.file, impl.header, known->commit().offset);
            view = std::make_shared<const FileView>(impl.file, impl.header, std::move(commit), nullptr);
            if (!impl.writing) result.torn = size - std::min(size, newest_commit(impl.file, impl.header).end);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::damaged) throw;
            faults.push_back({error.what(), 0, size});
            view.reset();
        }
    }
    if (view) result.good_items = view->verify(faults, threads);
    for (auto& fault : faults) result.damage.push_back({std::move(fault.what), fault.offset, fault.length});
    return result;
}

// ---- DatabaseBuilder ------------------------------------------------------------------------------------------------

namespace {

// Ids given so far: runs of consecutive ones, and the rest one by one.
class GivenIds {
public:
    std::uint64_t next() const { return next_; }
    bool contains(std::int64_t id) const {
        const auto after = std::upper_bound(runs_.begin(), runs_.end(), id,
                                            [](std::int64_t value, const auto& run) { return value < run.first; });
        return (after != runs_.begin() && id <= std::prev(after)->second) || single_.contains(id);
    }
    // Nothing may have it yet.
    void insert(std::int64_t id) {
        if (static_cast<std::uint64_t>(id) < next_) {
            single_.insert(id);
            return;
        }
        if (!runs_.empty() && runs_.back().second == id - 1)
            runs_.back().second = id;
        else
            runs_.push_back({id, id});
        next_ = static_cast<std::uint64_t>(id) + 1;
    }

private:
    std::uint64_t next_ = 0;
    std::vector<std::pair<std::int64_t, std::int64_t>> runs_;  // first and last, ascending
    std::unordered_set<std::int64_t> single_;
};

constexpr std::size_t pending_items = std::size_t{1} << 22;
constexpr std::size_t pending_bytes = std::size_t{1} << 28;

}  // namespace

struct DatabaseBuilder::Impl {
    std::string path, temporary, manifest;
    bool replace;
    File file;
    storage::Header header;
    std::unique_ptr<storage::Appender> out;
    Commit commit;
    GivenIds ids;

    // What was added and is not written yet.
    std::vector<std::uint8_t> codes;
    std::vector<std::int64_t> pending_ids;
    std::string texts;
    std::vector<std::size_t> key_sizes, label_sizes;  // a label of size npos: none
    std::vector<std::uint32_t> stamps;
    bool any_stamps = false;

    void flush() {
        const std::size_t size = pending_ids.size();
        if (size == 0) return;
        std::vector<std::string_view> keys(size), labels(size);
        std::size_t at = 0;
        for (std::size_t i = 0; i < size; ++i) {
            keys[i] = std::string_view(texts).substr(at, key_sizes[i]);
            at += key_sizes[i];
            if (label_sizes[i] == std::string::npos) continue;
            labels[i] = std::string_view(texts).substr(at, label_sizes[i]);
            at += label_sizes[i];
        }
        NewItems items{codes.data(), size, pending_ids.data(), keys.data(), labels.data(), nullptr};
        if (any_stamps) items.stamps = stamps.data();
        const NewSource source(items, header.bits, 0);
        for (const auto offset : write_items(*out, header.bits, 1, {&source})) commit.records.push_back(offset);
        codes.clear(), pending_ids.clear(), texts.clear(), key_sizes.clear(), label_sizes.clear(), stamps.clear();
        any_stamps = false;
    }
    ~Impl() {
        if (!temporary.empty()) storage::remove(temporary);
    }
};

DatabaseBuilder::DatabaseBuilder(const std::string& path, unsigned bits, std::string_view manifest, bool replace) {
    check_bits(bits);
    const std::string place = storage::resolved(path);
    struct stat status;
    if (stat(place.c_str(), &status) == 0) {
        if (S_ISDIR(status.st_mode)) throw SystemError(EISDIR, path, "cannot be made");
        if (!S_ISREG(status.st_mode)) fail(path + ": is a device or a pipe; expected the name of a file");
    }
    if (!replace && access(place.c_str(), F_OK) == 0) throw SystemError(EEXIST, path, "cannot be made");
    storage::remove_stale(place);
    impl_ = std::make_unique<Impl>();
    impl_->path = path;
    impl_->replace = replace;
    impl_->file = File::temporary_beside(place);
    impl_->temporary = impl_->file.path();
    impl_->header = storage::make_header(bits);
    storage::write_header(impl_->file, impl_->header);
    impl_->out = std::make_unique<storage::Appender>(impl_->file, impl_->header.crc, storage::first_record);
    impl_->commit.number = 1;
    impl_->commit.records = {storage::write_manifest(*impl_->out, 1, manifest)};
}
DatabaseBuilder::DatabaseBuilder(DatabaseBuilder&&) noexcept = default;
DatabaseBuilder& DatabaseBuilder::operator=(DatabaseBuilder&&) noexcept = default;
DatabaseBuilder::~DatabaseBuilder() = default;

unsigned DatabaseBuilder::bits() const { return impl_ ? impl_->header.bits : 0; }
std::size_t DatabaseBuilder::size() const { return impl_ ? impl_->commit.items : 0; }

void DatabaseBuilder::add(const NewItems& items, std::int64_t* assigned) {
    if (!impl_) fail("the database is published or given up; nothing can be added to it");
    Impl& impl = *impl_;
    check_items(items, impl.header.bits, impl.ids.next());
    for (std::size_t i = 0; items.ids && i < items.size; ++i)
        if (impl.ids.contains(items.ids[i]))
            fail("ids must be new, but " + std::to_string(items.ids[i]) + " is in the database already");
    const std::uint64_t first = impl.ids.next();
    const std::size_t bytes = code_bytes(impl.header.bits);
    if (items.size) impl.codes.insert(impl.codes.end(), items.codes, items.codes + items.size * bytes);
    for (std::size_t i = 0; i < items.size; ++i) {
        const std::int64_t id = items.ids ? items.ids[i] : static_cast<std::int64_t>(first + i);
        impl.ids.insert(id);
        impl.pending_ids.push_back(id);
        const std::string_view key = items.keys ? items.keys[i] : std::string_view();
        const std::string_view label = items.labels ? items.labels[i] : std::string_view();
        impl.texts.append(key).append(label);
        impl.key_sizes.push_back(key.size());
        impl.label_sizes.push_back(label.data() ? label.size() : std::string::npos);
        impl.stamps.push_back(items.stamps ? items.stamps[i] : 0);
        impl.any_stamps |= items.stamps && items.stamps[i];
    }
    impl.commit.items += items.size;
    put_assigned(items, first, assigned);
    if (impl.pending_ids.size() < pending_items && impl.codes.size() + impl.texts.size() < pending_bytes) return;
    try {
        impl.flush();
    } catch (...) {
        impl_.reset();  // nobody knows how much of it is in the file
        throw;
    }
}

Database DatabaseBuilder::publish_open() {
    if (!impl_) fail("the database is published already");
    // Whatever happens, this builder is done.
    const std::unique_ptr<Impl> impl = std::move(impl_);
    impl->flush();
    impl->commit.next_id = impl->ids.next();
    const std::string place = storage::resolved(impl->path);
    File replaced;  // whose writer must not go on in a file without a name
    if (impl->replace && access(place.c_str(), F_OK) == 0) replaced = locked(place, false);
    impl->file.set_mode(umask_mode());
    seal(impl->file, *impl->out, impl->commit);
    write_mark(impl->file, impl->header, impl->commit);
    impl->file.sync();
    auto database = std::make_unique<Database::Impl>();
    database->path = impl->path;
    database->header = impl->header;
    database->writing = true;
    database->view = std::make_shared<const FileView>(impl->file, impl->header, impl->commit, nullptr);
    storage::rename(impl->temporary, place, impl->replace);
    impl->temporary.clear();
    storage::sync_folder(place);
    impl->file.call(impl->path);
    database->file = std::move(impl->file);
    database->writer = std::make_unique<storage::Writer>(database->file, database->header);
    return Database(std::move(database));
}

void DatabaseBuilder::publish() { publish_open().close(); }

}  // namespace idcwh
