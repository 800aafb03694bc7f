// HugeArray: an uninitialised array for random reads, on huge pages if the system has them. In gigabytes of 4 KiB
// pages, a random read usually misses the TLB and waits for the page table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace idcwh {

template <class T>
class HugeArray {
    static_assert(std::is_trivial_v<T>);

public:
    HugeArray() = default;
    // Allocates `size` elements, and `slack` zero bytes after them that may be read but are not part of the array.
    explicit HugeArray(std::size_t size, std::size_t slack = 0) : size_(size) {
        if (size > (static_cast<std::size_t>(-1) / 2 - slack) / sizeof(T)) throw std::bad_alloc();
        const std::size_t bytes = size * sizeof(T) + slack;
        align_ = bytes >= page ? page : 64;
        data_ = static_cast<T*>(::operator new(bytes + (bytes == 0), std::align_val_t{align_}));
#if defined(__linux__)
        if (bytes >= page) madvise(data_, bytes, MADV_HUGEPAGE);  // only advice, so the result does not matter
#endif
        for (std::size_t i = 0; i < slack; ++i) reinterpret_cast<std::uint8_t*>(data_ + size)[i] = 0;
    }
    ~HugeArray() { ::operator delete(data_, std::align_val_t{align_}); }
    HugeArray(HugeArray&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), align_(other.align_) {}
    HugeArray& operator=(HugeArray&& other) noexcept {
        std::swap(data_, other.data_), std::swap(size_, other.size_), std::swap(align_, other.align_);
        return *this;
    }

    T* data() { return data_; }
    const T* data() const { return data_; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }
    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * sizeof(T); }

private:
    static constexpr std::size_t page = std::size_t{2} << 20;
    T* data_ = nullptr;
    std::size_t size_ = 0, align_ = 64;
};

}  // namespace idcwh
