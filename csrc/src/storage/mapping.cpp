// See mapping.hpp.
#include "storage/mapping.hpp"

#include <idcwh/error.hpp>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

namespace idcwh::storage {

// Entries are in a list that only grows, so that the handler can read it at any time. An entry with begin 0 is free.
struct Mapping::Guarded {
    std::atomic<std::uintptr_t> begin{0}, end{0};
    std::atomic<bool> lost{false};
    Guarded* next = nullptr;
};

namespace {

// The largest range that is copied. Reading one block is cheaper than a mapping and its page faults.
constexpr std::uint64_t max_copied = 1 << 16;

std::atomic<Mapping::Guarded*> guarded{nullptr};
std::mutex registering;
struct sigaction before;

void pass_on(int signal, siginfo_t* info, void* context) {
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else {
        // With the default handler, the access is repeated and ends the process.
        struct sigaction standard = {};
        standard.sa_handler = SIG_DFL;
        sigaction(signal, &standard, nullptr);
    }
}

// Calls only functions that are safe in a signal handler: sigaction and mmap are plain system calls.
void handle(int signal, siginfo_t* info, void* context) {
    const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
    for (auto* entry = guarded.load(std::memory_order_acquire); entry; entry = entry->next) {
        const std::uintptr_t begin = entry->begin.load(), end = entry->end.load();
        // While begin is 0, the entry is free or incomplete, and its end belongs to another mapping.
        if (!begin || at < begin || at >= end || entry->begin.load() != begin) continue;
        const int error = errno;
        const auto page = at & ~(static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)) - 1);
        entry->lost.store(true);
        const void* zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        errno = error;
        if (zeros != MAP_FAILED) return;
        break;
    }
    pass_on(signal, info, context);
}

Mapping::Guarded* guard(void* pages, std::size_t size) {
    const std::lock_guard turn(registering);
    if (!guarded.load()) {
        struct sigaction action = {};
        action.sa_sigaction = handle;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, &before);
    }
    Mapping::Guarded* entry = guarded.load();
    while (entry && entry->begin.load()) entry = entry->next;
    const auto begin = reinterpret_cast<std::uintptr_t>(pages);
    if (entry) {
        entry->lost.store(false);
        entry->end.store(begin + size);
        entry->begin.store(begin);
        return entry;
    }
    entry = new Mapping::Guarded;
    entry->begin.store(begin);
    entry->end.store(begin + size);
    entry->next = guarded.load();
    guarded.store(entry, std::memory_order_release);
    return entry;
}

}  // namespace

Mapping::Mapping(const File& file, std::uint64_t offset, std::uint64_t length, bool live) : size_(length) {
    if (length <= max_copied && !live) {
        copy_ = HugeArray<std::uint8_t>(static_cast<std::size_t>(length));
        file.read(offset, copy_.data(), length);
        data_ = copy_.data();
        return;
    }
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t before_piece = offset % page;
    if (length > static_cast<std::size_t>(-1) / 2 - page)  // in a 32-bit program
        throw SystemError(EFBIG, file.path(), "cannot be mapped into memory");
    pages_size_ = static_cast<std::size_t>(length + before_piece);
    pages_ =
        mmap(nullptr, pages_size_, PROT_READ, MAP_SHARED, file.handle(), static_cast<off_t>(offset - before_piece));
    if (pages_ == MAP_FAILED) throw SystemError(errno, file.path(), "cannot be mapped into memory");
    data_ = static_cast<const std::uint8_t*>(pages_) + before_piece;
    try {
        guarded_ = guard(pages_, pages_size_);
    } catch (...) {
        munmap(pages_, pages_size_);
        throw;
    }
    for (std::uint64_t at = length; at-- > 0 && !last_;) {
        if (const std::uint8_t value = data_[at]) {
            last_ = data_ + at;
            last_value_ = value;
        }
    }
}

Mapping::~Mapping() {
    if (!guarded_) return;
    guarded_->begin.store(0);
    munmap(pages_, pages_size_);
}

bool Mapping::lost() const {
    if (!guarded_) return false;
    std::atomic_thread_fence(std::memory_order_acquire);  // orders this check after the caller's reads
    return (last_ && *last_ != last_value_) || guarded_->lost.load();
}

}  // namespace idcwh::storage
