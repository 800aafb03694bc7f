// Index: codes with ids in memory, for exact search. Any number of threads search while another adds and removes.
//
//     idcwh::Index index(64);
//     index.add(codes, n);               // ids 0 .. n - 1
//     auto snapshot = index.snapshot();  // the current content, which stays constant
//     snapshot.topk(queries, nq, 10, distances, ids);
//
// search.hpp defines the layout of codes and results, and the order of results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "search.hpp"

namespace idcwh {

// The codes that a search may return, by id or by position: a view of the caller's memory. Positions are those of the
// order in which codes were added.
struct Where {
    enum class Kind { all, ids, id_range, bytes, bitmap };
    Kind kind = Kind::all;
    const std::int64_t* ids = nullptr;      // in any order, repeats allowed; ids that are missing select nothing
    std::size_t count = 0;                  // number of ids, or of bytes or bits, which must equal size()
    std::int64_t first = 0, last = 0;       // id_range: ids in [first, last)
    const std::uint8_t* bytes = nullptr;    // one per position, nonzero: eligible
    const std::uint64_t* bitmap = nullptr;  // one bit per position, 64 per word, lowest first

    static Where all() { return {}; }
    static Where of_ids(const std::int64_t* ids, std::size_t count) {
        Where where{Kind::ids};
        where.ids = ids, where.count = count;
        return where;
    }
    static Where id_range(std::int64_t first, std::int64_t last) {
        Where where{Kind::id_range};
        where.first = first, where.last = last;
        return where;
    }
    static Where of_bytes(const std::uint8_t* bytes, std::size_t count) {
        Where where{Kind::bytes};
        where.bytes = bytes, where.count = count;
        return where;
    }
    static Where of_bitmap(const std::uint64_t* bitmap, std::size_t count) {
        Where where{Kind::bitmap};
        where.bitmap = bitmap, where.count = count;
        return where;
    }
};

struct QueryOptions {
    Where where;
    unsigned threads = 0;  // 0: the default of the index (Index::set_threads)
    const Interrupt* interrupt = nullptr;
    // Ids that a query must not return, such as its own: [nq][exclude_count]. Repeats and missing ids, such as -1, are
    // allowed. If they leave fewer codes to a query than topk() or rank() write, its results end with the id -1 at the
    // distance INT32_MAX. A search for k codes costs as much as one for k + exclude_count.
    const std::int64_t* exclude = nullptr;
    std::size_t exclude_count = 0;  // per query
};

// A search path: one of the ways in which a search can run.
struct Path {
    std::string name;     // "scan", "groups", "table" or "multi-index"
    double nanoseconds;   // expected time per query
    std::string because;  // the statistics on which the estimate is based
};

struct Explanation {
    Path chosen;
    std::vector<Path> others;  // available paths with a longer expected time
    std::string text() const;  // readable form, one line per path
};

// A structure that optimize() has built.
struct StructureInfo {
    std::string name;
    std::size_t codes;   // number of codes that it covers; later ones are scanned
    std::size_t bytes;   // memory besides codes and ids
    std::string detail;  // its parameters and statistics
};

struct OptimizeOptions {
    static constexpr std::size_t default_memory = static_cast<std::size_t>(-1);  // 128 bytes per code plus 1 MiB
    std::size_t memory = default_memory;  // limit in bytes, besides codes and ids
    unsigned threads = 0;                 // 0: the default of the index
    const Interrupt* interrupt = nullptr;
};

namespace detail {
class IndexState;
struct View;
}  // namespace detail

// The content of an index at one moment, which later changes do not affect. Creating it copies no codes and waits for
// no writer. A change is contained completely or not at all. A snapshot may outlive the index. Its functions are
// thread-safe.
class IDCWH_API Snapshot {
public:
    // Only for the library itself.
    explicit Snapshot(std::shared_ptr<const detail::View> view);
    Snapshot(Snapshot&& other) noexcept;
    Snapshot& operator=(Snapshot&& other) noexcept;
    ~Snapshot();

    unsigned bits() const;
    std::size_t size() const;

    // These behave like the functions of search.hpp.
    std::size_t eligible(const Where& where) const;
    std::size_t topk(const std::uint8_t* queries, std::size_t nq, std::size_t k, std::int32_t* distances,
                     std::int64_t* ids, const QueryOptions& options = {}) const;
    Hits topk_ties(const std::uint8_t* queries, std::size_t nq, std::size_t k, const QueryOptions& options = {}) const;
    Hits radius(const std::uint8_t* queries, std::size_t nq, unsigned radius, const QueryOptions& options = {}) const;
    void count(const std::uint8_t* queries, std::size_t nq, unsigned radius, std::int64_t* counts,
               const QueryOptions& options = {}) const;
    void histogram(const std::uint8_t* queries, std::size_t nq, std::int64_t* counts,
                   const QueryOptions& options = {}) const;
    std::size_t rank(const std::uint8_t* queries, std::size_t nq, std::int32_t* distances, std::int64_t* ids,
                     const QueryOptions& options = {}) const;

    bool contains(std::int64_t id) const;
    // Copies the codes of these ids to out [count][code_bytes(bits)]. If an id is missing, throws Error(not_found) that
    // names the first missing id.
    void get(const std::int64_t* ids, std::size_t count, std::uint8_t* out) const;
    // Copies the codes [eligible(where)][code_bytes(bits)] and ids [eligible(where)] that `where` selects, in the order
    // in which they were added. Either pointer may be null.
    void copy(std::uint8_t* codes, std::int64_t* ids, const Where& where = {}) const;

    // Return a description of how a search of nq queries would run, and why. For a search with exclude_count ids per
    // query, k is as much larger.
    Explanation explain_topk(std::size_t k, std::size_t nq = 1, const Where& where = {}) const;
    Explanation explain_radius(unsigned radius, std::size_t nq = 1, const Where& where = {}) const;
    std::vector<StructureInfo> structures() const;
    std::size_t memory() const;  // bytes of codes, ids and structures, including spare capacity

private:
    std::shared_ptr<const detail::View> view_;
};

// A changing collection of codes. Its functions are thread-safe: changes wait for one another, and searches run on
// snapshots. An error leaves the index unchanged.
class IDCWH_API Index {
public:
    explicit Index(unsigned bits);
    Index(Index&&) noexcept;
    Index& operator=(Index&&) noexcept;
    ~Index();

    unsigned bits() const;
    std::size_t size() const;
    Snapshot snapshot() const;

    // Adds n codes. The ids must be >= 0, unique and new. If `ids` is null, they continue from the largest id ever
    // used. `assigned`, which may be null, receives the n ids.
    void add(const std::uint8_t* codes, std::size_t n, const std::int64_t* ids = nullptr,
             std::int64_t* assigned = nullptr);
    // Removes the codes with these ids and returns their number; repeated ids count once. If an id is missing, removes
    // nothing and throws Error(not_found) that names the first missing id.
    std::size_t remove(const std::int64_t* ids, std::size_t count);
    // Allocates memory for `size` codes in total.
    void reserve(std::size_t size);

    // Builds structures that make searches faster, and replaces earlier ones. Results do not change. Codes that are
    // added later are scanned until there are enough to build the structures again.
    void optimize(const OptimizeOptions& options = {});
    // Frees all structures.
    void drop_structures();

    // Sets the default number of threads for searches of this index. 0: threads() of threads.hpp.
    void set_threads(unsigned threads);

private:
    std::shared_ptr<detail::IndexState> state_;
};

}  // namespace idcwh
