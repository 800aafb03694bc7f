// See file.hpp.
#include "storage/file.hpp"

#include <idcwh/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/fault_injection.hpp"
#include "storage/format.hpp"

static_assert(sizeof(off_t) == 8, "32-bit programs are compiled with _FILE_OFFSET_BITS=64");

namespace idcwh::storage {

Trace* trace = nullptr;

namespace {

struct Place {
    std::string folder, name;
};

Place place_of(const std::string& path) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return {".", path};
    return {slash ? path.substr(0, slash) : "/", path.substr(slash + 1)};
}

constexpr std::size_t temporary_random = 6;  // letters
constexpr std::string_view temporary_suffix = ".tmp";

// Returns the first part of the names of temporary files beside a path.
std::string temporary_prefix(const Place& place) {
    const long longest = pathconf(place.folder.c_str(), _PC_NAME_MAX);
    const std::size_t max_name =
        (longest > 0 ? static_cast<std::size_t>(longest) : 255) - 2 - temporary_random - temporary_suffix.size();
    std::size_t size = std::min(place.name.size(), max_name);
    // Cuts between UTF-8 characters, because some file systems reject other names.
    while (size && size < place.name.size() && (place.name[size] & 0xC0) == 0x80) --size;
    return "." + place.name.substr(0, size) + ".";
}

// Repeats a system call that a signal interrupts.
template <class Call>
auto retried(Call call) {
    auto result = call();
    while (result < 0 && errno == EINTR) result = call();
    return result;
}

int sync_handle(int handle) {
#if defined(__APPLE__)
    if (fcntl(handle, F_FULLFSYNC) == 0) return 0;
    return fsync(handle);
#else
    return fdatasync(handle);
#endif
}

}  // namespace

void fail_corrupt(const std::string& path, const std::string& problem, const std::string& found,
                  const std::string& expected, const std::string& hint) {
    throw Error(ErrorCode::corrupt,
                {.path = path, .problem = problem, .found = found, .expected = expected, .hint = hint});
}

void File::fail(const char* what) const { throw SystemError(errno, path_, what); }

File File::open(const std::string& path, bool write) {
    File file;
    file.path_ = path;
    // Non-blocking, because opening a pipe would wait for its other end. It is rejected below.
    file.handle_ = retried([&] { return ::open(path.c_str(), (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK); });
    if (file.handle_ < 0) file.fail(write ? "cannot be opened for writing" : "cannot be opened");
    struct stat status;
    if (fstat(file.handle_, &status) != 0) file.fail("cannot be read");
    if (S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        file.fail("cannot be opened");
    }
    if (!S_ISREG(status.st_mode)) fail_corrupt(path, "is not a codes.bin", "a device or a pipe", "a file", "");
    return file;
}

File File::temporary_beside(const std::string& target) {
    const Place place = place_of(target);
    const bool replaces = access(target.c_str(), F_OK) == 0;
    std::random_device random;
    File file;
    file.path_ = target;
    for (;;) {
        std::string name = place.folder + "/" + temporary_prefix(place);
        for (std::size_t i = 0; i < temporary_random; ++i) name += static_cast<char>('a' + random() % 26);
        name += temporary_suffix;
        file.handle_ = retried(
            [&] { return ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666); });
        if (file.handle_ < 0 && errno == EEXIST) continue;
        if (file.handle_ < 0) throw SystemError(errno, place.folder, "no file can be created in this folder");
        // Between open and lock, remove_stale() of another process may have removed the file.
        if (file.lock() && file.is_at(name)) {
            file.path_ = name;
            return file;
        }
        file.close();
    }
}

File::~File() { close(); }
File::File(File&& other) noexcept
    : handle_(std::exchange(other.handle_, -1)), held_(other.held_), path_(std::move(other.path_)) {}
File& File::operator=(File&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(held_, other.held_);
    std::swap(path_, other.path_);
    return *this;
}
void File::close() {
    if (handle_ >= 0) ::close(std::exchange(handle_, -1));
}

std::uint64_t File::size() const {
    struct stat status;
    if (fstat(handle_, &status) != 0) fail("cannot be read");
    return static_cast<std::uint64_t>(status.st_size);
}

void File::read(std::uint64_t offset, void* out, std::size_t size) const {
    auto* at = static_cast<unsigned char*>(out);
    while (size) {
        const ssize_t got = retried([&] { return pread(handle_, at, size, static_cast<off_t>(offset)); });
        if (got < 0) fail("cannot be read");
        if (got == 0) fail_corrupt(path_, "is truncated before byte " + std::to_string(offset));
        at += got, offset += static_cast<std::uint64_t>(got), size -= static_cast<std::size_t>(got);
    }
}

void File::write(std::uint64_t offset, const void* data, std::size_t size) {
    if (trace && size)
        if ((errno = trace->write(path_, offset, data, size))) fail("cannot be written");
    const auto* at = static_cast<const unsigned char*>(data);
    while (size) {
        const ssize_t put = retried([&] { return pwrite(handle_, at, size, static_cast<off_t>(offset)); });
        if (put <= 0) {
            if (put == 0) errno = ENOSPC;
            fail("cannot be written");
        }
        at += put, offset += static_cast<std::uint64_t>(put), size -= static_cast<std::size_t>(put);
    }
}

void File::sync() {
    if (held_) return;
    if (trace)
        if ((errno = trace->sync(path_))) fail("cannot be synced");
    if (retried([&] { return sync_handle(handle_); })) fail("cannot be synced");
}

void File::truncate(std::uint64_t size) {
    if (trace)
        if ((errno = trace->truncate(path_, size))) fail("cannot be truncated");
    if (retried([&] { return ftruncate(handle_, static_cast<off_t>(size)); })) fail("cannot be truncated");
}

bool File::lock() {
    if (retried([&] { return flock(handle_, LOCK_EX | LOCK_NB); }) == 0) return true;
    if (errno != EWOULDBLOCK) fail("cannot be locked");
    return false;
}

void File::unlock() noexcept {
    if (handle_ >= 0) flock(handle_, LOCK_UN);
}

bool File::is_at(const std::string& path) const {
    struct stat mine, theirs;
    return fstat(handle_, &mine) == 0 && stat(path.c_str(), &theirs) == 0 && mine.st_dev == theirs.st_dev &&
           mine.st_ino == theirs.st_ino;
}

void check_replaced(const std::string& path) {
    if (access(path.c_str(), F_OK) != 0) return;
    const File file = File::open(path, false);
    unsigned char begins[sizeof magic] = {};
    const std::uint64_t size = file.size();
    if (size >= sizeof magic) file.read(0, begins, sizeof begins);
    if (size && std::memcmp(begins, magic, sizeof magic))
        fail_corrupt(path, "already exists and is not a codes.bin", {}, {}, "remove it or choose another name");
}

void rename(const std::string& from, const std::string& to, bool replace) {
    struct stat status;
    if (replace) check_replaced(to);
    if (replace && stat(to.c_str(), &status) == 0 && chmod(from.c_str(), status.st_mode & 0777) != 0)
        throw SystemError(errno, to, "permissions cannot be kept");
    if (trace)
        if (const int error = trace->rename(from, to)) throw SystemError(error, to, "cannot be renamed");
    if (replace) {
        if (std::rename(from.c_str(), to.c_str())) throw SystemError(errno, to, "cannot be renamed");
    } else if (link(from.c_str(), to.c_str()) == 0) {
        unlink(from.c_str());
    } else if (errno == EEXIST || access(to.c_str(), F_OK) == 0) {
        throw SystemError(EEXIST, to, "cannot be renamed");
    } else if (std::rename(from.c_str(), to.c_str())) {  // a file system without links
        throw SystemError(errno, to, "cannot be renamed");
    }
}

void sync_folder(const std::string& path) {
    const std::string folder = place_of(path).folder;
    if (trace)
        if (const int error = trace->sync_folder(folder)) throw SystemError(error, folder, "cannot be synced");
    const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) throw SystemError(errno, folder, "cannot be synced");
    const int error = retried([&] { return fsync(handle); }) ? errno : 0;
    ::close(handle);
    if (error) throw SystemError(error, folder, "cannot be synced");
}

void remove(const std::string& path) noexcept { unlink(path.c_str()); }

void remove_stale(const std::string& target) noexcept {
    const Place place = place_of(target);
    DIR* folder = opendir(place.folder.c_str());
    if (!folder) return;
    const std::string prefix = temporary_prefix(place);
    while (const dirent* entry = readdir(folder)) {
        const std::string name = entry->d_name;
        if (name.size() != prefix.size() + temporary_random + temporary_suffix.size() || !name.starts_with(prefix) ||
            !name.ends_with(temporary_suffix))
            continue;
        const std::string path = place.folder + "/" + name;
        const int handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (handle < 0) continue;
        if (flock(handle, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
        ::close(handle);
    }
    closedir(folder);
}

std::string absolute(const std::string& path) {
    if (path.empty() || path[0] == '/') return path;
    char* folder = getcwd(nullptr, 0);
    if (!folder) throw SystemError(errno, path, "cannot be resolved without a current folder");
    const std::string result = std::string(folder) + "/" + path;
    std::free(folder);
    return result;
}

std::string resolved(const std::string& path) {
    char* found = realpath(path.c_str(), nullptr);
    struct stat status;
    // realpath() also fails for links to pipes, such as /dev/stdout, which stat() follows.
    if (!found && stat(path.c_str(), &status) != 0 && lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode))
        fail_corrupt(path, "is a broken link", {}, {}, "remove it or choose another name");
    if (!found) return path;
    std::string result = found;
    std::free(found);
    return result;
}

}  // namespace idcwh::storage
