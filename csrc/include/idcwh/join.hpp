// All pairs of codes within a radius: of one set of codes with itself, or of two. Rows of the caller's memory, or ids
// of the items of snapshots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "index.hpp"

namespace idcwh {

struct JoinOptions {
    unsigned threads = 0;                         // 0: as many as the process may run on (threads.hpp)
    std::size_t block = std::size_t{1} << 17;     // largest number of pairs per block, at least 1
    std::uint64_t max_pairs = ~std::uint64_t{0};  // more pairs are an error of PairStream::next
    const Interrupt* interrupt = nullptr;         // must live as long as the stream
};

// A block of pairs: row numbers or ids, and distances, one entry per pair.
struct Pairs {
    std::vector<std::int64_t> first, second;
    std::vector<std::int32_t> distances;
};

// The pairs within a radius, block by block. Each pair comes exactly once, with first < second in a self-join. The
// order is a function of the codes and the radius. It does not depend on the number of threads or the instruction set.
//
// A stream takes about 12 bytes and two codes of memory per distinct code. To this come the blocks, and the pairs of
// distinct codes that the threads have found ahead of the caller. These take up to 100 MB per thread if most codes are
// within the radius, and eight times as much where such codes begin.
//
// A caller should use the same memory for all blocks. Writing to new memory takes several times as long.
//
// One thread at a time may use a stream. The interrupt is called on the thread that uses it.
class IDCWH_API PairStream {
public:
    PairStream(PairStream&&) noexcept;
    PairStream& operator=(PairStream&&) noexcept;
    ~PairStream();

    // Replaces the block by the next pairs. Returns false at the end, where the block is empty.
    //
    // Throws Error(interrupted), and Error(invalid_argument) if there are more than max_pairs pairs. The message states
    // their number. After an error, each later call throws the same one.
    bool next(Pairs& block);
    // Writes the next pairs to arrays [capacity], and returns their number. It is less than capacity only at the end.
    std::size_t next(std::int64_t* first, std::int64_t* second, std::int32_t* distances, std::size_t capacity);
    // Returns the plan of the join as text.
    std::string explain() const;

private:
    friend IDCWH_API PairStream self_join(const Codes&, unsigned, const JoinOptions&);
    friend IDCWH_API PairStream join(const Codes&, const Codes&, unsigned, const JoinOptions&);
    friend IDCWH_API PairStream self_join(const Snapshot&, unsigned, const JoinOptions&, const Where&);
    friend IDCWH_API PairStream join(const Snapshot&, const Snapshot&, unsigned, const JoinOptions&, const Where&);
    struct Impl;
    explicit PairStream(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// Returns all pairs of rows i < j of the codes at a distance of at most `radius`. The codes are not read later.
//
// Throws Error(invalid_argument) for codes that cannot be read, a radius above their bits, or 2^32 codes and more.
IDCWH_API PairStream self_join(const Codes& codes, unsigned radius, const JoinOptions& options = {});

// Returns all pairs of a row of `a` (first) and a row of `b` (second), which have the same number of bits.
IDCWH_API PairStream join(const Codes& a, const Codes& b, unsigned radius, const JoinOptions& options = {});

// Returns all pairs of ids i < j of the snapshot's items that `where` selects. The snapshot is not read later.
IDCWH_API PairStream self_join(const Snapshot& snapshot, unsigned radius, const JoinOptions& options = {},
                               const Where& where = {});

// Returns all pairs of an id of `a` that `where` selects (first) and an id of `b` (second).
IDCWH_API PairStream join(const Snapshot& a, const Snapshot& b, unsigned radius, const JoinOptions& options = {},
                          const Where& where = {});

// Return the number of pairs that self_join and join find.
IDCWH_API std::uint64_t count_pairs(const Codes& codes, unsigned radius, const JoinOptions& options = {});
IDCWH_API std::uint64_t count_pairs(const Codes& a, const Codes& b, unsigned radius, const JoinOptions& options = {});
IDCWH_API std::uint64_t count_pairs(const Snapshot& snapshot, unsigned radius, const JoinOptions& options = {},
                                    const Where& where = {});
IDCWH_API std::uint64_t count_pairs(const Snapshot& a, const Snapshot& b, unsigned radius,
                                    const JoinOptions& options = {}, const Where& where = {});

enum class ClusterMode {
    components,  // connected components: two rows are in one cluster if a chain of pairs within the radius joins them
    greedy,      // rows in ascending order: each joins the first keeper within the radius, or else becomes a keeper
};

// Writes the cluster of each row, numbered from 0 in the order of their first rows, to clusters [codes.size]. Returns
// the number of clusters. Components need no list of pairs. Greedy clustering keeps 8 bytes per pair of distinct codes.
IDCWH_API std::size_t cluster(const Codes& codes, unsigned radius, ClusterMode mode, std::int64_t* clusters,
                              const JoinOptions& options = {});

// Writes the ids of the items that `where` selects, in the order in which they were added, and their clusters. Both are
// arrays [snapshot.eligible(where)].
IDCWH_API std::size_t cluster(const Snapshot& snapshot, unsigned radius, ClusterMode mode, std::int64_t* ids,
                              std::int64_t* clusters, const JoinOptions& options = {}, const Where& where = {});

}  // namespace idcwh
