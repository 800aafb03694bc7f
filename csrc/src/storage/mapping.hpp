// A piece of a file in memory: mapped, or read when it is small.
//
// Mapped memory is gone when somebody cuts the file off, and touching it then is a signal (SIGBUS) that would end the
// process. A handler puts zeros there instead and remembers it: whoever has read the piece asks lost() before the
// result is used. Signals for other memory go to the handler that was there before.
//
// The page in which the file ends now gives no signal: what is behind the end in it reads as zeros. So lost() also
// looks whether the last byte that is not zero is still what it was: behind it nothing can change, and before it
// nothing can be cut off without it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_array.hpp"
#include "storage/file.hpp"

namespace idcwh::storage {

class Mapping {
public:
    // live: mapped however small it is, so that it shows what the file holds now.
    Mapping(const File& file, std::uint64_t offset, std::uint64_t length, bool live = false);
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    const std::uint8_t* data() const { return data_; }
    std::uint64_t size() const { return size_; }
    bool lost() const;

    struct Guarded;  // what the handler knows of a mapping

private:
    const std::uint8_t* data_ = nullptr;
    std::uint64_t size_ = 0;
    HugeArray<std::uint8_t> copy_;
    void* pages_ = nullptr;
    std::size_t pages_size_ = 0;
    Guarded* guarded_ = nullptr;
    const volatile std::uint8_t* last_ = nullptr;  // the last byte that is not zero
    std::uint8_t last_value_ = 0;
};

}  // namespace idcwh::storage
