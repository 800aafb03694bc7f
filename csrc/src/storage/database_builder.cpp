// DatabaseBuilder: a file that grows under a hidden name until it is whole.
#include <idcwh/database.hpp>

#include <cerrno>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "given_ids.hpp"
#include "plan.hpp"
#include "storage/database_impl.hpp"
#include "storage/new_items.hpp"

namespace idcwh {

using storage::Commit;
using storage::File;
using storage::FileView;
using storage::NewSource;

namespace {

constexpr std::size_t pending_items = std::size_t{1} << 22;
constexpr std::size_t pending_bytes = std::size_t{1} << 28;

}  // namespace

struct DatabaseBuilder::Impl {
    std::string path, place, temporary;
    pid_t process = getpid();
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
    std::vector<Checksum> checksums;

    void check_process() const {
        if (process != getpid())
            fail({.path = path, .problem = "was begun before a fork", .hint = "end it in the parent"});
    }
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
        items.checksums = checksums.data();
        const NewSource source(items, header.bits, 0);
        for (const auto offset : write_items(*out, header.bits, 1, {&source})) commit.records.push_back(offset);
        codes.clear(), pending_ids.clear(), texts.clear(), key_sizes.clear(), label_sizes.clear(), stamps.clear();
        checksums.clear();
        any_stamps = false;
    }
    ~Impl() {
        if (!temporary.empty() && process == getpid()) storage::remove(temporary);
    }
};

DatabaseBuilder::DatabaseBuilder(const std::string& path, unsigned bits, std::string_view manifest, bool replace) {
    check_bits(bits);
    const std::string place = storage::resolved(storage::absolute(path));
    struct stat status;
    if (stat(place.c_str(), &status) == 0) {
        if (S_ISDIR(status.st_mode)) throw SystemError(EISDIR, path, "cannot be made");
        if (!S_ISREG(status.st_mode)) fail({.path = path, .found = "a device or a pipe", .expected = "a file"});
    }
    if (!replace && access(place.c_str(), F_OK) == 0) throw SystemError(EEXIST, path, "cannot be made");
    storage::check_replaced(place);  // now, and when it is replaced
    storage::remove_stale(place);
    impl_ = std::make_unique<Impl>();
    impl_->path = path;
    impl_->place = place;
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
    impl_->check_process();
    Impl& impl = *impl_;
    storage::check_items(items, impl.header.bits, impl.ids.next(),
                         [&](std::int64_t id) { return impl.ids.contains(id); });
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
        impl.checksums.push_back(items.checksums ? items.checksums[i] : Checksum{});
    }
    impl.commit.items += items.size;
    storage::put_assigned(items, first, assigned);
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
    impl_->check_process();
    // Whatever happens, this builder is done.
    const std::unique_ptr<Impl> impl = std::move(impl_);
    impl->flush();
    impl->commit.next_id = impl->ids.next();
    const std::string& place = impl->place;
    File replaced;  // whose writer must not go on in a file without a name
    if (impl->replace && access(place.c_str(), F_OK) == 0) replaced = storage::locked(place, false);
    seal(impl->file, *impl->out, impl->commit);
    write_mark(impl->file, impl->header, impl->commit);
    impl->file.sync();
    auto database = std::make_unique<Database::Impl>();
    database->path = impl->path;
    database->place = place;
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
