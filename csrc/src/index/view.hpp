// The segments that a snapshot reads, of an index in memory or of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "index/segment.hpp"

namespace idcwh::detail {

// The segments of one version, which do not change during its lifetime. All functions are thread-safe.
struct View {
    unsigned bits = 0;
    std::size_t live = 0;       // codes in all segments
    std::uint64_t next_id = 0;  // one more than the largest id ever used

    View() = default;
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    virtual ~View();

    // Returns the segments in the order of adding, ready for searches. May be slow the first time, since a file checks
    // its codes. An id is alive in at most one segment.
    virtual std::span<const Segment> segments() const = 0;
    // Returns the same segments, ready for looking up ids only.
    virtual std::span<const Segment> id_segments() const { return segments(); }
    // Throws Error if the memory was invalid during a search (a truncated file). Called after the memory was read.
    virtual void check() const {}
    // Returns the threads of searches that set none; 0: as many as the process may use.
    virtual unsigned threads() const { return 0; }
    // Returns the bytes of the segments, including spare capacity.
    virtual std::size_t memory() const;
};

}  // namespace idcwh::detail
