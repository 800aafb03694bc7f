// Database: opens, changes, refreshes, compacts and checks a file.
#include <idcwh/database.hpp>

#include <algorithm>
#include <cerrno>
#include <unordered_set>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "scan/plan.hpp"
#include "storage/database_impl.hpp"
#include "storage/new_items.hpp"
#include "storage/segment_structures.hpp"

namespace idcwh {

using storage::Change;
using storage::Commit;
using storage::File;
using storage::FileView;
using storage::NewSource;
using storage::Source;
using storage::StoredSource;

namespace {

constexpr std::uint64_t least_unused = std::uint64_t{16} << 20;  // bytes below which compacting frees too little

// Changes would be lost, because no path leads to this file.
[[noreturn]] void fail_replaced(const std::string& path) {
    storage::fail_corrupt(path, "was removed or replaced while it was open", {}, {}, "open it again");
}

}  // namespace

File storage::locked(const std::string& path, bool write) {
    for (;;) {
        File file = File::open(path, write);
        if (!file.lock()) throw Error(ErrorCode::locked, {.path = path, .hint = "try again when it is closed"});
        if (file.is_at(path)) return file;  // otherwise it was compacted or replaced between open and lock
    }
}

void Database::Impl::check_writable() const {
    newest();  // throws if the database is closed
    if (!writing) fail({.path = path, .problem = "is open for reading", .hint = "open it for writing to change it"});
    if (process != getpid())
        fail({.path = path, .problem = "was opened for writing before a fork", .hint = "open it in the child"});
    if (!file.is_at(here())) fail_replaced(path);
    if (!writer->usable())
        fail({.path = path, .problem = "a write has failed and could not be undone", .hint = "open it again"});
    check_untouched();
}

// This process holds the lock. A change of the file means that another file was copied over it, which must not be
// changed or replaced.
void Database::Impl::check_untouched() const {
    const auto now = newest();
    now->check_identity();
    if (!storage::ends_with(file, header, now->commit()))
        storage::fail_corrupt(path, "was overwritten while it was open", {}, {}, "open it again");
}

void Database::Impl::change(const Change& what) {
    show(std::shared_ptr<const storage::FileView>(writer->apply(*newest(), what)));
    compact_when_due();
    maintain(false);
}

void Database::Impl::compact_when_due() {
    const auto now = newest();
    const std::uint64_t unused = file.size() - now->used();
    if (!auto_compact || unused < least_unused || unused < now->used()) return;
    try {
        compact();
    } catch (const std::exception&) {  // for example a full disk; the change itself is complete
    }
}

void Database::Impl::maintain(bool always) {
    if (!structures) return;
    try {
        const auto now = newest();
        if (always || storage::wants_structures(*now)) show(storage::with_structures(*now, *structures, false));
    } catch (const std::exception&) {  // for example no memory; the change itself is complete, and searches scan
    }
}

void Database::Impl::compact() {
    const auto now = newest();
    if (!file.is_at(here())) fail_replaced(path);
    check_untouched();
    const std::string target = storage::resolved(here());
    File out = File::temporary_beside(hidden.empty() ? target : place);
    out.hold_syncs(file.holds_syncs());
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
        out.call(hidden.empty() ? path : hidden);
        auto next = std::make_shared<const FileView>(out, fresh, std::move(commit), nullptr);
        auto next_writer = std::make_unique<storage::Writer>(file, header);
        if (!file.is_at(target)) fail_replaced(path);
        check_untouched();
        storage::rename(temporary, target, true);
        file = std::move(out);
        header = fresh;
        writer = std::move(next_writer);
        show(std::move(next));
    } catch (...) {
        storage::remove(temporary);
        throw;
    }
    if (!hidden.empty()) return;
    try {
        storage::sync_folder(target);
    } catch (...) {
        // A power cut could bring back the old file, without the changes that this one would receive until then.
        writer->give_up();
        throw;
    }
}

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Database::Impl& Database::open_impl() const {
    if (!impl_) fail(ErrorParts{.path = "database", .problem = "is closed"});
    impl_->newest();  // throws if the database is closed
    return *impl_;
}

Database Database::open(const std::string& path, Access access) {
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    impl->place = storage::absolute(path);
    impl->writing = access == Access::write;
    impl->file = impl->writing ? storage::locked(path, true) : File::open(path, false);
    impl->header = storage::read_header(impl->file);
    Commit commit = storage::newest_commit(impl->file, impl->header);
    if (impl->writing) {
        impl->writer = std::make_unique<storage::Writer>(impl->file, impl->header);
    }
    impl->view = std::make_shared<const FileView>(impl->file, impl->header, commit, nullptr);
    if (impl->writing) {
        const std::string place = storage::resolved(impl->place);
        storage::remove_stale(place);
        if (impl->file.size() > commit.end) impl->file.truncate(commit.end);
        // The last writer may have died before its commit, or the name of the file, was on the disk. Readers see both
        // already, so they must become durable.
        impl->file.sync();
        storage::sync_folder(place);
        storage::write_mark(impl->file, impl->header, commit);
    }
    return Database(std::move(impl));
}

Database Database::create(const std::string& path, unsigned bits, std::string_view manifest, bool replace,
                          Durability durability) {
    check_bits(bits);
    const std::string place = storage::resolved(storage::absolute(path));
    struct stat status;
    if (stat(place.c_str(), &status) == 0) {
        if (S_ISDIR(status.st_mode)) throw SystemError(EISDIR, path, "cannot be created");
        if (!S_ISREG(status.st_mode)) fail({.path = path, .found = "a device or a pipe", .expected = "a file"});
        if (!replace) throw SystemError(EEXIST, path, "cannot be created");
    }
    storage::check_replaced(place);  // rename() checks it again later
    storage::remove_stale(place);
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    impl->place = place;
    impl->replace = replace;
    impl->writing = true;
    impl->file = File::temporary_beside(place);
    impl->file.hold_syncs(true);
    impl->hidden = impl->file.path();
    impl->header = storage::make_header(bits);
    impl->writer = std::make_unique<storage::Writer>(impl->file, impl->header);
    Commit commit = storage::write_new(impl->file, impl->header, 1, manifest, {}, 0);
    impl->view = std::make_shared<const FileView>(impl->file, impl->header, std::move(commit), nullptr);
    if (durability == Durability::every_change) impl->publish();
    return Database(std::move(impl));
}

void Database::Impl::publish() {
    if (hidden.empty()) return;
    check_writable();
    try {
        const auto now = newest();
        if (now->entries().size() > 1 || now->used() < file.size()) {
            compact();
            maintain(true);
        }
        File replaced;  // locked, because its writer must not continue in a file without a name
        if (replace && access(place.c_str(), F_OK) == 0) replaced = storage::locked(place, false);
        file.hold_syncs(false);
        file.sync();
        storage::rename(hidden, place, replace);
        hidden.clear();
        storage::sync_folder(place);
        file.call(path);
    } catch (...) {
        remove_hidden();
        writer->give_up();
        throw;
    }
}

unsigned Database::bits() const { return open_impl().header.bits; }
std::size_t Database::size() const { return open_impl().newest()->live; }
const std::string& Database::path() const { return open_impl().path; }
bool Database::writable() const { return open_impl().writing; }
DatabaseSnapshot Database::snapshot() const { return DatabaseSnapshot(open_impl().newest()); }
void Database::set_auto_compact(bool on) { open_impl().auto_compact = on; }
void Database::publish() {
    Impl& impl = open_impl();
    const std::lock_guard turn(impl.changing);
    impl.publish();
}
void Database::discard() noexcept {
    if (impl_) impl_->discard();
}
void Database::close() {
    if (!impl_) return;
    try {
        const std::lock_guard turn(impl_->changing);
        impl_->publish();
    } catch (...) {
        impl_->discard();
        throw;
    }
    impl_->discard();
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
    if (impl.writing) return false;  // the lock excludes other writers
    const std::lock_guard turn(impl.changing);
    const std::uint64_t known = impl.newest()->commit().number;
    if (!impl.file.is_at(impl.place)) {
        File file = File::open(impl.place, false);
        file.call(impl.path);
        const storage::Header header = storage::read_header(file);
        if (header.bits != impl.header.bits)
            storage::fail_corrupt(impl.path, "was replaced by a database of another code length",
                                  std::to_string(header.bits) + " bits", std::to_string(impl.header.bits),
                                  "open it again");
        auto view = std::make_shared<const FileView>(file, header, storage::newest_commit(file, header), nullptr);
        impl.file = std::move(file);
        impl.header = header;
        impl.show(std::move(view));
        impl.maintain(true);
        return true;
    }
    impl.newest()->check_identity();
    Commit commit = storage::newest_commit(impl.file, impl.header);
    if (commit.number == known) return false;
    if (commit.number < known)
        storage::fail_corrupt(impl.path, "was overwritten by an older copy while it was open", {}, {}, "open it again");
    impl.show(std::move(commit));
    impl.maintain(false);
    return true;
}

void Database::add(const NewItems& items, std::int64_t* assigned) { update(nullptr, 0, items, assigned); }

std::size_t Database::remove(const std::int64_t* ids, std::size_t count) {
    Impl& impl = open_impl();
    const std::lock_guard turn(impl.changing);
    return impl.update(ids, count, {}, nullptr);
}

std::size_t Database::remove_keys(const std::string_view* keys, std::size_t count) {
    if (count && !keys) fail({.path = "keys", .found = "null", .expected = std::to_string(count) + " keys"});
    Impl& impl = open_impl();
    const std::lock_guard turn(impl.changing);  // find and update must see the same items
    const DatabaseSnapshot view(impl.newest());
    const auto ids = view.find(keys, count);
    std::unordered_set<std::string_view> found;
    for (const auto id : ids) found.insert(view.key(id));
    for (std::size_t i = 0; i < count; ++i)
        if (!found.contains(keys[i]))
            throw Error(ErrorCode::not_found,
                        {.path = impl.path, .problem = "key " + std::string(keys[i]) + " is missing"});
    return impl.update(ids.data(), ids.size(), {}, nullptr);
}

void Database::replace(const NewItems& items) {
    if (items.size && !items.ids) fail({.path = "ids", .found = "null", .expected = "the ids of the items to replace"});
    update(items.ids, items.size, items, nullptr);
}

void Database::update(const std::int64_t* removed, std::size_t removed_count, const NewItems& items,
                      std::int64_t* assigned) {
    Impl& impl = open_impl();
    const std::lock_guard turn(impl.changing);
    impl.update(removed, removed_count, items, assigned);
}

// Returns the number of removed items. The caller holds `changing`.
std::size_t Database::Impl::update(const std::int64_t* removed, std::size_t removed_count, const NewItems& items,
                                   std::int64_t* assigned) {
    check_writable();
    if (removed_count && !removed)
        fail({.path = "ids", .found = "null", .expected = std::to_string(removed_count) + " ids"});
    const auto view = newest();
    Change change;
    std::unordered_set<std::int64_t> gone;
    for (std::size_t i = 0; i < removed_count; ++i)
        if (gone.insert(removed[i]).second) change.removed.push_back(view->at(removed[i]));
    storage::check_items(items, header.bits, view->next_id,
                         [&](std::int64_t id) { return !gone.contains(id) && view->find(id); });
    if (items.size == 0 && change.removed.empty()) return 0;
    const std::uint64_t first = view->next_id;
    const NewSource source(items, header.bits, static_cast<std::int64_t>(first));
    change.added = &source;
    this->change(change);
    storage::put_assigned(items, first, assigned);
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
    impl.maintain(true);
}

void Database::optimize(const OptimizeOptions& options) {
    Impl& impl = open_impl();
    const std::lock_guard turn(impl.changing);
    impl.show(storage::with_structures(*impl.newest(), options, true));
    impl.structures = options;
    impl.structures->interrupt = nullptr;  // it lives only as long as this call
}

void Database::drop_structures() {
    Impl& impl = open_impl();
    const std::lock_guard turn(impl.changing);
    impl.structures.reset();
    impl.show(storage::without_structures(*impl.newest()));
}

Verification Database::check(unsigned threads, std::uint64_t since) const {
    const Impl& impl = open_impl();
    Verification result{};
    std::vector<storage::Fault> faults;
    std::shared_ptr<const FileView> view;
    {
        const std::lock_guard turn(impl.changing);  // compaction must not replace impl.file
        const auto known = impl.newest();
        if (storage::is_another(impl.file, impl.header)) known->check_identity();
        result.items = known->live;
        const std::uint64_t size = impl.file.size();
        try {
            storage::verify_header_page(impl.file, impl.header, faults);
            // Reads the commit from the file again, because the copy in memory may be older than the corruption.
            Commit commit = storage::read_commit(impl.file, impl.header, known->commit().offset);
            view = std::make_shared<const FileView>(impl.file, impl.header, std::move(commit),
                                                    since ? known.get() : nullptr);
            if (!impl.writing) result.torn = size - std::min(size, newest_commit(impl.file, impl.header).end);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::corrupt) throw;
            faults.push_back({storage::described(error), 0, size});
            view.reset();
        }
    }
    if (view) result.good_items = view->verify(faults, threads, since);
    for (auto& fault : faults) result.corrupt.push_back({std::move(fault.what), fault.offset, fault.length});
    return result;
}

}  // namespace idcwh
