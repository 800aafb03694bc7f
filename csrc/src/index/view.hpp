// What a snapshot looks at: segments of rows, of an index in memory or of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "index/segment.hpp"

namespace idcwh::detail {

// Its segments stay as they are as long as it lives. Its functions may be called from many threads.
struct View {
    unsigned bits = 0;
    std::size_t live = 0;       // codes in all segments
    std::uint64_t next_id = 0;  // one more than the largest id ever used

    View() = default;
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    virtual ~View();

    // The segments, in the order in which their codes were added, ready to be searched; may be slow the first time (a
    // file checks its codes). An id is alive in at most one of them.
    virtual std::span<const Segment> segments() const = 0;
    // The same, ready for looking up ids only.
    virtual std::span<const Segment> id_segments() const { return segments(); }
    // After the memory was read: throws Error when it was pulled away meanwhile (a truncated file).
    virtual void check() const {}
    // That a search may use when it does not say; 0: as many as the process may.
    virtual unsigned threads() const { return 0; }
    // Bytes that the segments take, room to grow included.
    virtual std::size_t memory() const;
};

}  // namespace idcwh::detail
