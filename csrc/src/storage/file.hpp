// A file of the operating system, with errors that name it. What changes a file or a folder goes through here, in one
// place that tests can watch (trace.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace idcwh::storage {

// Throws Error(corrupt) about the file at this path. hint: by default, to restore it.
[[noreturn]] void fail_corrupt(const std::string& path, const std::string& problem, const std::string& found = {},
                               const std::string& expected = {},
                               const std::string& hint = "restore a copy or build it again");

class File {
public:
    File() = default;
    static File open(const std::string& path, bool write);
    // A new, locked, hidden file beside `target`: .NAME.XXXXXX.tmp, with NAME cut where that would be too long. It is
    // private if it will replace a file, which may be private; otherwise the umask decides.
    static File temporary_beside(const std::string& target);
    ~File();
    File(File&& other) noexcept;
    File& operator=(File&& other) noexcept;

    bool is_open() const { return handle_ >= 0; }
    int handle() const { return handle_; }
    const std::string& path() const { return path_; }
    // Messages about a temporary file name what it will be.
    void call(const std::string& path) { path_ = path; }

    std::uint64_t size() const;
    void read(std::uint64_t offset, void* out, std::size_t size) const;  // all of it, or Error
    void write(std::uint64_t offset, const void* data, std::size_t size);
    void sync();
    // While syncs are held, sync() does nothing.
    void hold_syncs(bool on) { held_ = on; }
    bool holds_syncs() const { return held_; }
    void truncate(std::uint64_t size);
    bool lock();             // for this process alone; false when somebody else has it
    void unlock() noexcept;  // memory that is mapped from the file would keep the lock beyond close()
    // Whether the path still leads to this file.
    bool is_at(const std::string& path) const;
    void close();

private:
    [[noreturn]] void fail(const char* what) const;
    int handle_ = -1;
    bool held_ = false;
    std::string path_;
};

// Error(corrupt) unless nothing is at this path, an empty file, or a codes.bin: nothing else is ever replaced.
void check_replaced(const std::string& path);
// Gives the file at `from` the name `to`: it replaces what has that name and takes over its permissions, or fails where
// something has. Durable only after sync_folder(to).
void rename(const std::string& from, const std::string& to, bool replace);
// The names in the folder of this path reach the disk.
void sync_folder(const std::string& path);
void remove(const std::string& path) noexcept;
// Temporary files beside `target` whose writers are gone.
void remove_stale(const std::string& target) noexcept;
// The path from the root on, whatever the current folder will be.
std::string absolute(const std::string& path);
// The path with symbolic links followed, where it exists. Error(corrupt) for a link that leads nowhere.
std::string resolved(const std::string& path);

}  // namespace idcwh::storage
