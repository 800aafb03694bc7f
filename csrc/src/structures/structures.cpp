// See structures.hpp.
#include "structures/structures.hpp"

#include <algorithm>
#include <limits>
#include <new>

#include "index/version.hpp"
#include "index/writer_state.hpp"
#include "structures/groups/groups.hpp"
#include "structures/multi_index/multi_index.hpp"

namespace idcwh::detail {

Structures::Structures() = default;
Structures::~Structures() = default;

std::size_t Structures::memory() const { return groups ? groups->memory() : multi->memory(); }
const char* Structures::name() const { return multi ? "multi-index" : groups->table() ? "table" : "groups"; }
StructureInfo Structures::info() const {
    return {name(), covered, memory(), groups ? groups->describe() : multi->describe()};
}

double Structures::expected_ns(const Request& request) const {
    if (groups) return groups->expected_ns(request.work, request.wanted, request.nq, request.eligible);
    switch (request.work) {
        case Work::topk: return multi->expected_ns_topk(request.wanted, request.eligible);
        case Work::radius:
        case Work::count: return multi->expected_ns_radius(static_cast<unsigned>(request.wanted));
        default: return std::numeric_limits<double>::infinity();
    }
}

std::size_t Structures::topk(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                             std::int32_t* distances, std::int64_t* ids, const SearchOptions& options) const {
    return groups ? idcwh::topk(*groups, codes, queries, nq, k, distances, ids, options)
                  : idcwh::topk(*multi, codes, queries, nq, k, distances, ids, options);
}
Hits Structures::topk_ties(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                           const SearchOptions& options) const {
    return groups ? idcwh::topk_ties(*groups, codes, queries, nq, k, options)
                  : idcwh::topk_ties(codes, queries, nq, k, options);
}
Hits Structures::radius(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
                        const SearchOptions& options) const {
    return groups ? idcwh::radius(*groups, codes, queries, nq, radius, options)
                  : idcwh::radius(*multi, codes, queries, nq, radius, options);
}
void Structures::count(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
                       std::int64_t* counts, const SearchOptions& options) const {
    groups ? idcwh::count(*groups, codes, queries, nq, radius, counts, options)
           : idcwh::count(*multi, codes, queries, nq, radius, counts, options);
}
void Structures::histogram(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int64_t* counts,
                           const SearchOptions& options) const {
    groups ? idcwh::histogram(*groups, codes, queries, nq, counts, options)
           : idcwh::histogram(codes, queries, nq, counts, options);
}
std::size_t Structures::rank(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int32_t* distances,
                             std::int64_t* ids, const SearchOptions& options) const {
    return groups ? idcwh::rank(*groups, codes, queries, nq, distances, ids, options)
                  : idcwh::rank(codes, queries, nq, distances, ids, options);
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
    return structures->groups || structures->multi ? structures : nullptr;
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
        // Searches scan instead.
    }
    state.tried_at = next.rows;
}

void maintain(IndexState& state, Contents& next) {
    if (!state.structure_memory) return;
    constexpr std::size_t least = 16384;  // rows that are scanned in no time
    const std::size_t behind = next.rows - (next.structures ? next.structures->covered : state.tried_at);
    if (behind > std::max(least, next.rows / (next.structures ? 8 : 2))) rebuild(state, next);
}

}  // namespace idcwh::detail
