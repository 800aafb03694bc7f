// All pairs of codes within a radius: of one set of codes with itself, or of two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "search.hpp"

namespace idcwh {

struct JoinOptions {
    unsigned threads = 0;                         // 0: as many as the process may run on (threads.hpp)
    std::size_t block = std::size_t{1} << 20;     // largest number of pairs per block, at least 1
    std::uint64_t max_pairs = ~std::uint64_t{0};  // more pairs are an error
    const Interrupt* interrupt = nullptr;
};

// A block of pairs: row numbers and distances, one entry per pair.
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
// One thread at a time may use a stream.
class IDCWH_API PairStream {
public:
    PairStream(PairStream&&) noexcept;
    PairStream& operator=(PairStream&&) noexcept;
    ~PairStream();

    // Replaces the block by the next pairs. Returns false at the end, where the block is empty.
    //
    // Throws Error(interrupted), and Error(invalid_argument) if there are more than max_pairs pairs. The message states
    // their number.
    bool next(Pairs& block);
    // Returns the plan of the join as text.
    std::string explain() const;

private:
    friend IDCWH_API PairStream self_join(const Codes&, unsigned, const JoinOptions&);
    friend IDCWH_API PairStream join(const Codes&, const Codes&, unsigned, const JoinOptions&);
    struct Impl;
    explicit PairStream(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// Returns all pairs of rows i < j of the codes at a distance of at most `radius`. The codes must stay unchanged until
// the stream ends.
//
// Throws Error(invalid_argument) for codes that cannot be read, a radius above their bits, or 2^32 codes and more.
IDCWH_API PairStream self_join(const Codes& codes, unsigned radius, const JoinOptions& options = {});

// Returns all pairs of a row of `a` (first) and a row of `b` (second), which have the same number of bits.
IDCWH_API PairStream join(const Codes& a, const Codes& b, unsigned radius, const JoinOptions& options = {});

// Return the number of pairs that self_join and join find.
IDCWH_API std::uint64_t count_pairs(const Codes& codes, unsigned radius, const JoinOptions& options = {});
IDCWH_API std::uint64_t count_pairs(const Codes& a, const Codes& b, unsigned radius, const JoinOptions& options = {});

enum class ClusterMode {
    components,  // connected components: two rows are in one cluster if a chain of pairs within the radius joins them
    greedy,      // rows in ascending order: each joins the first keeper within the radius, or else becomes a keeper
};

// Writes the cluster of each row, numbered from 0 in the order of their first rows, to clusters [codes.size]. Returns
// the number of clusters. Components need no list of pairs. Greedy clustering keeps 8 bytes per pair of distinct codes.
IDCWH_API std::size_t cluster(const Codes& codes, unsigned radius, ClusterMode mode, std::int64_t* clusters,
                              const JoinOptions& options = {});

}  // namespace idcwh
