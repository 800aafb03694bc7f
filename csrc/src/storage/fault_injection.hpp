// A hook for tests, which records all changes of files in order and can let them fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace idcwh::storage {

struct Trace {
    virtual ~Trace() = default;
    // Each is called before the operation. It returns 0, or the errno with which the operation fails instead.
    virtual int write(const std::string& path, std::uint64_t offset, const void* data, std::size_t size) = 0;
    virtual int sync(const std::string& path) = 0;
    virtual int truncate(const std::string& path, std::uint64_t size) = 0;
    virtual int rename(const std::string& from, const std::string& to) = 0;
    virtual int sync_folder(const std::string& folder) = 0;
};

// The installed hook, or null.
extern Trace* trace;

}  // namespace idcwh::storage
