// The search structures that optimize() builds.
#pragma once

#include <idcwh/index.hpp>

#include <cstddef>
#include <memory>
#include <vector>

#include "structures/searcher.hpp"

namespace idcwh {
class Groups;
class MultiIndex;
}  // namespace idcwh

namespace idcwh::detail {

struct Contents;
class IndexState;
struct Segment;

// One structure over the first rows of a segment.
struct Structures {
    Structures();
    ~Structures();

    std::size_t covered = 0;
    bool by_row = true;                       // the ids of the covered rows ascend, so searches use row numbers
    std::unique_ptr<const Groups> groups;     // either this
    std::unique_ptr<const MultiIndex> multi;  // or this
    std::vector<std::unique_ptr<const Searcher>> searchers;

    std::size_t memory() const;
    StructureInfo info() const;
};

// Returns null if no structure within the memory limit is faster than a scan.
std::shared_ptr<const Structures> build_structures(const Segment& segment, const OptimizeOptions& options);

// Rebuild the structure of a version before it is published: rebuild() always, maintain() only after enough growth.
// They do nothing unless optimize() was called. If memory is too small for a structure, there is none.
void rebuild(IndexState& state, Contents& next);
void maintain(IndexState& state, Contents& next);

}  // namespace idcwh::detail
