// A range of a file in memory: mapped, or copied if it is small.
//
// If another process truncates the file, an access to mapped memory beyond its end raises SIGBUS, which would end the
// process. A handler replaces that memory by zeros and records the loss. Readers therefore check lost() before they
// use a result. The handler passes signals for other memory to the previous handler.
//
// In the page with the new end of the file, bytes after the end read as zeros without a signal. Therefore lost() also
// compares the last nonzero byte of the range with its original value. A truncation that changes any byte changes this
// byte too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_array.hpp"
#include "storage/file.hpp"

namespace idcwh::storage {

class Mapping {
public:
    // live: maps a small range too, so that the memory shows later changes of the file.
    Mapping(const File& file, std::uint64_t offset, std::uint64_t length, bool live = false);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    const std::uint8_t* data() const { return data_; }
    std::uint64_t size() const { return size_; }
    bool lost() const;

    struct Guarded;  // the handler's record of a mapping

private:
    const std::uint8_t* data_ = nullptr;
    std::uint64_t size_ = 0;
    HugeArray<std::uint8_t> copy_;
    void* pages_ = nullptr;
    std::size_t pages_size_ = 0;
    Guarded* guarded_ = nullptr;
    const volatile std::uint8_t* last_ = nullptr;  // the last nonzero byte
    std::uint8_t last_value_ = 0;
};

}  // namespace idcwh::storage
