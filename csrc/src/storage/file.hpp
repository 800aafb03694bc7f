// File operations, with errors that contain the path. Every change of a file or a folder is made here, so that tests
// can record it or let it fail (fault_injection.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace idcwh::storage {

// Throws Error(corrupt) about the file at this path.
[[noreturn]] void fail_corrupt(const std::string& path, const std::string& problem, const std::string& found = {},
                               const std::string& expected = {},
                               const std::string& hint = "restore a copy or build it again");

// An open file. Its functions throw SystemError.
class File {
public:
    File() = default;
    static File open(const std::string& path, bool write);
    // Creates a locked, hidden file beside `target`: .NAME.XXXXXX.tmp, with a shortened NAME if it would be too long.
    // The file is private if `target` exists, because that may be private. Otherwise the umask applies.
    static File temporary_beside(const std::string& target);
    ~File();
    File(File&& other) noexcept;
    File& operator=(File&& other) noexcept;

    bool is_open() const { return handle_ >= 0; }
    int handle() const { return handle_; }
    const std::string& path() const { return path_; }
    // Sets the path in messages, for a temporary file that is renamed later.
    void call(const std::string& path) { path_ = path; }

    std::uint64_t size() const;
    // Reads exactly `size` bytes. Throws Error(corrupt) if the file ends before.
    void read(std::uint64_t offset, void* out, std::size_t size) const;
    void write(std::uint64_t offset, const void* data, std::size_t size);
    void sync();
    // While syncs are held, sync() does nothing.
    void hold_syncs(bool on) { held_ = on; }
    bool holds_syncs() const { return held_; }
    void truncate(std::uint64_t size);
    // Locks the file for this handle. Returns false if another handle or process has locked it.
    bool lock();
    // Needed before close(), because memory that is mapped from the file keeps the lock.
    void unlock() noexcept;
    // Returns true if the path leads to this file.
    bool is_at(const std::string& path) const;
    void close();

private:
    [[noreturn]] void fail(const char* what) const;
    int handle_ = -1;
    bool held_ = false;
    std::string path_;
};

// Throws Error(corrupt) if there is a file at this path that is neither empty nor a codes.bin, so that a mistyped path
// cannot destroy it.
void check_replaced(const std::string& path);
// Renames a file. With `replace`, replaces the file at `to` and keeps its permissions. Without, throws SystemError if
// `to` exists. The new name is durable only after sync_folder(to).
void rename(const std::string& from, const std::string& to, bool replace);
// Syncs the folder that contains this path, so that its names are on the disk.
void sync_folder(const std::string& path);
void remove(const std::string& path) noexcept;
// Removes temporary files beside `target` that no writer has locked.
void remove_stale(const std::string& target) noexcept;
// Returns the absolute path, which stays valid if the current folder changes.
std::string absolute(const std::string& path);
// Returns the path with symbolic links resolved, or the path itself if it does not exist. Throws Error(corrupt) for a
// broken link.
std::string resolved(const std::string& path);

}  // namespace idcwh::storage
