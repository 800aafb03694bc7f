// See structures.hpp.
#include "structures/structures.hpp"

#include <algorithm>
#include <new>

#include "index/version.hpp"
#include "index/writer_state.hpp"
#include "structures/groups/search.hpp"
#include "structures/multi_index/queries.hpp"

namespace idcwh::detail {

Structures::Structures() = default;
Structures::~Structures() = default;

std::size_t Structures::memory() const { return groups ? groups->memory() : multi->memory(); }

StructureInfo Structures::info() const {
    const char* const name = multi ? "multi-index" : groups->table() ? "table" : "groups";
    return {name, covered, memory(), searchers.front()->describe()};
}

std::shared_ptr<const Structures> build_structures(const Segment& segment, const OptimizeOptions& options) {
    if (segment.rows == 0) return nullptr;
    auto structures = std::make_shared<Structures>();
    structures->covered = segment.rows;
    structures->by_row = segment.ascending;
    const Codes codes = segment.view();
    constexpr std::size_t bytes_per_code = 128, bytes_more = std::size_t{1} << 20;
    const bool given = options.memory != OptimizeOptions::default_memory;
    const std::size_t memory = given ? options.memory : bytes_per_code * segment.rows + bytes_more;
    structures->groups = Groups::build(codes, segment.order_ids(), memory, options.threads, options.interrupt);
    if (!structures->groups) structures->multi = MultiIndex::build(codes, memory, options.threads, options.interrupt);
    if (structures->groups)
        structures->searchers = GroupSearch::all_of(*structures->groups);
    else if (structures->multi)
        structures->searchers.push_back(std::make_unique<MultiIndexSearch>(*structures->multi));
    return structures->searchers.empty() ? nullptr : structures;
}

void rebuild(IndexState& state, Contents& next) {
    next.structures.reset();
    if (!state.structure_memory) return;
    OptimizeOptions options;
    options.memory = *state.structure_memory;
    options.threads = state.threads.load();
    try {
        next.structures = build_structures(next.segment(), options);
    } catch (const std::bad_alloc&) {
        // searches scan instead
    }
    state.tried_at = next.rows;
}

void maintain(IndexState& state, Contents& next) {
    if (!state.structure_memory) return;
    constexpr std::size_t least = 16384;  // chosen by hand: fewer rows are scanned in microseconds
    const std::size_t behind = next.rows - (next.structures ? next.structures->covered : state.tried_at);
    if (behind > std::max(least, next.rows / (next.structures ? 8 : 2))) rebuild(state, next);
}

}  // namespace idcwh::detail
