// Search structures built by optimize(), and their selection for a search.
#pragma once

#include <idcwh/index.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "structures/cost.hpp"

namespace idcwh {
class Groups;
class MultiIndex;
}  // namespace idcwh

namespace idcwh::detail {

struct Contents;
class IndexState;
struct Segment;
struct Selections;
struct View;

struct Request {
    Work work;
    std::size_t nq;
    std::size_t wanted;      // k, or the radius
    std::size_t eligible;    // rows
    bool scattered = false;  // these rows may have others between them

    // The request to a part with so many eligible rows.
    Request of_part(std::size_t rows, bool scattered) const {
        const bool within = work == Work::radius || work == Work::count;
        return {work, nq, within ? wanted : std::min(wanted, rows), rows, scattered};
    }
};

// One structure over the first rows of a segment; later rows are scanned. Each operation equals that of search.hpp over
// the covered rows.
struct Structures {
    Structures();
    ~Structures();

    std::size_t covered = 0;
    bool by_row = true;                       // the ids of the covered rows ascend: it is searched by row number
    std::unique_ptr<const Groups> groups;     // either this
    std::unique_ptr<const MultiIndex> multi;  // or this

    std::size_t memory() const;
    StructureInfo info() const;
    const char* name() const;
    // For one query of the request, over the covered rows; infinite for work that it does not do.
    double expected_ns(const Request& request) const;

    std::size_t topk(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                     std::int32_t* distances, std::int64_t* ids, const SearchOptions& options) const;
    Hits topk_ties(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::size_t k,
                   const SearchOptions& options) const;
    Hits radius(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius,
                const SearchOptions& options) const;
    void count(const Codes& codes, const std::uint8_t* queries, std::size_t nq, unsigned radius, std::int64_t* counts,
               const SearchOptions& options) const;
    void histogram(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int64_t* counts,
                   const SearchOptions& options) const;
    std::size_t rank(const Codes& codes, const std::uint8_t* queries, std::size_t nq, std::int32_t* distances,
                     std::int64_t* ids, const SearchOptions& options) const;
};

// For tests: a search takes the structure whatever it is expected to cost.
extern std::atomic<bool> always_structures;

// Whether a search of a segment takes its structure. The request is that of_part().
bool structure_pays(const Segment& segment, const Request& request);
// For a person: the ways that a search of all segments could take, the best first.
std::vector<Path> paths(const View& view, const Selections& selections, const Request& request);

// Null where none pays within the memory.
std::shared_ptr<const Structures> build_structures(const Segment& segment, const OptimizeOptions& options);

// Builds the structure of a version that is not published yet anew: always, or when it has grown enough to make up for
// it. Nothing happens unless optimize() was called; without memory for one there is none.
void rebuild(IndexState& state, Contents& next);
void maintain(IndexState& state, Contents& next);

}  // namespace idcwh::detail
