// Memory for rows that are only ever appended: readers of earlier rows are not disturbed by a writer behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace idcwh {

// Uninitialised, on the boundary of a cache line; large ones on large pages where the system has them, because searches
// read them end to end or at random.
class Buffer {
public:
    explicit Buffer(std::size_t bytes)
        : bytes_(bytes),
          alignment_(bytes >= large_page ? large_page : 64),
          data_(static_cast<std::uint8_t*>(::operator new(bytes ? bytes : 1, std::align_val_t{alignment_}))) {
#if defined(__linux__)
        if (bytes >= large_page) madvise(data_, bytes / large_page * large_page, MADV_HUGEPAGE);
#endif
    }
    ~Buffer() { ::operator delete(data_, std::align_val_t{alignment_}); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    std::uint8_t* data() const { return data_; }
    std::size_t size() const { return bytes_; }

private:
    static constexpr std::size_t large_page = std::size_t{2} << 20;
    std::size_t bytes_, alignment_;
    std::uint8_t* data_;
};

}  // namespace idcwh
