// Index: codes with ids that come and go, searched exactly by any number of threads while one adds and removes.
//
//     idcwh::Index index(64);
//     index.add(codes, n);                                   // ids 0 .. n - 1
//     auto view = index.snapshot();                          // what is there now, however long it is looked at
//     view.topk(queries, nq, 10, distances, ids);
//
// The memory of codes, ids and results is laid out as search.hpp says, and every result has its order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "search.hpp"

namespace idcwh {

// What a search may return, by id or by position: a view of the caller's memory.
struct Where {
    enum class Kind { all, ids, id_range, bytes, bitmap };
    Kind kind = Kind::all;
    const std::int64_t* ids = nullptr;  // in any order, repeats allowed; those that are not in the index select nothing
    std::size_t count = 0;              // of ids, bytes, or bits of the bitmap; these two must equal size()
    std::int64_t first = 0, last = 0;   // id_range: ids in [first, last)
    const std::uint8_t* bytes = nullptr;    // a byte for each code, in the order they were added; not zero: eligible
    const std::uint64_t* bitmap = nullptr;  // the same as bits (64 a word, lowest first)

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
    unsigned threads = 0;  // 0: what the index says (Index::set_threads)
    const Interrupt* interrupt = nullptr;
};

// One way in which a search could run.
struct Path {
    std::string name;     // "scan", "groups", "table", "multi-index"
    double nanoseconds;   // expected for one query
    std::string because;  // the statistics that the estimate rests on
};

struct Explanation {
    Path chosen;
    std::vector<Path> others;  // that were there, but look slower
    std::string text() const;  // all of it for a person, a line each
};

// A structure that optimize() has built.
struct StructureInfo {
    std::string name;
    std::size_t codes;   // that it covers; later ones are scanned
    std::size_t bytes;   // of memory, beyond the codes and ids themselves
    std::string detail;  // its parameters and statistics
};

struct OptimizeOptions {
    static constexpr std::size_t default_memory = static_cast<std::size_t>(-1);  // 128 bytes per code and 1 MiB
    std::size_t memory = default_memory;  // bytes that structures may take, beyond the codes and ids
    unsigned threads = 0;
    const Interrupt* interrupt = nullptr;
};

namespace detail {
class IndexState;
struct View;
}  // namespace detail

// What an index held at one moment. Cheap to take, never waits for a writer, and stays as it is: its searches see all
// of an add or a remove, or nothing of it. It may outlive the index. Its functions may be called from many threads.
class IDCWH_API Snapshot {
public:
    // For the library itself, which knows what it looks at.
    explicit Snapshot(std::shared_ptr<const detail::View> view);
    Snapshot(Snapshot&& other) noexcept;
    Snapshot& operator=(Snapshot&& other) noexcept;
    ~Snapshot();

    unsigned bits() const;
    std::size_t size() const;

    // As in search.hpp.
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
    // Copies the codes of these ids to out, count x code_bytes(bits). Error(not_found) names the first that is missing.
    void get(const std::int64_t* ids, std::size_t count, std::uint8_t* out) const;
    // Copies all codes and ids, in the order they were added: size() x code_bytes(bits) and size(). Either may be null.
    void copy(std::uint8_t* codes, std::int64_t* ids) const;

    // How a top-k search of nq queries would run, and why; explain_radius the same for a search within a radius.
    Explanation explain_topk(std::size_t k, std::size_t nq = 1, const Where& where = {}) const;
    Explanation explain_radius(unsigned radius, std::size_t nq = 1, const Where& where = {}) const;
    std::vector<StructureInfo> structures() const;
    std::size_t memory() const;  // bytes that codes, ids and structures take, room to grow included

private:
    std::shared_ptr<const detail::View> view_;
};

// Readers take snapshots; writers take turns among themselves. After an error the index is as it was.
class IDCWH_API Index {
public:
    explicit Index(unsigned bits);
    Index(Index&&) noexcept;
    Index& operator=(Index&&) noexcept;
    ~Index();

    unsigned bits() const;
    std::size_t size() const;
    Snapshot snapshot() const;

    // Adds n codes. ids: >= 0, none twice and none that is here already; null: they go on from the largest id ever
    // used. assigned, where given, receives the n ids.
    void add(const std::uint8_t* codes, std::size_t n, const std::int64_t* ids = nullptr,
             std::int64_t* assigned = nullptr);
    // Removes the codes with these ids and returns how many (an id given twice counts once). Error(not_found) names the
    // first that is not here, and then nothing is removed.
    std::size_t remove(const std::int64_t* ids, std::size_t count);
    // Makes room for this many codes in all.
    void reserve(std::size_t size);

    // Builds what makes searches faster, within the memory given, and drops what was built before. Results do not
    // change. Later adds and removes keep it up to date: new codes are scanned until they are many, then it is built
    // anew.
    void optimize(const OptimizeOptions& options = {});
    // Gives the memory of all structures back.
    void drop_structures();

    // Threads that a search of this index may use when it does not say; 0: as many as the process may (threads.hpp).
    void set_threads(unsigned threads);

private:
    std::shared_ptr<detail::IndexState> state_;
};

}  // namespace idcwh
