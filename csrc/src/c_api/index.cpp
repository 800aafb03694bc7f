// The C API: the index, and searches of all snapshots.
#include "c_api/c_api.hpp"

struct idcwh_index {
    idcwh::Index index;
};

namespace {

using namespace idcwh::c_api;

// Calls search() with snapshot and options in C++ form.
template <class Search>
auto with(const idcwh_snapshot* snapshot, const idcwh_query_options* options, Search search) {
    const auto& view = view_of(snapshot);
    idcwh::QueryOptions cpp;
    const InterruptOf interrupt(options);
    if (options) {
        cpp.where = where_of(&options->where);
        cpp.threads = options->threads;
        cpp.interrupt = interrupt.get();
        cpp.exclude = options->exclude;
        cpp.exclude_count = options->exclude_count;
    }
    return search(view, cpp);
}

}  // namespace

int idcwh_index_create(unsigned bits, idcwh_index** index) {
    return guarded([&] {
        expected(index, "index") = nullptr;
        *index = new idcwh_index{idcwh::Index(bits)};
    });
}

void idcwh_index_free(idcwh_index* index) { delete index; }
unsigned idcwh_index_bits(const idcwh_index* index) { return index ? index->index.bits() : 0; }
size_t idcwh_index_size(const idcwh_index* index) { return index ? index->index.size() : 0; }

int idcwh_index_add(idcwh_index* index, const uint8_t* codes, size_t n, const int64_t* ids, int64_t* assigned) {
    return guarded([&] { expected(index, "index").index.add(codes, n, ids, assigned); });
}

int idcwh_index_remove(idcwh_index* index, const int64_t* ids, size_t count, size_t* removed) {
    return guarded([&] { put(removed, expected(index, "index").index.remove(ids, count)); });
}

int idcwh_index_reserve(idcwh_index* index, size_t size) {
    return guarded([&] { expected(index, "index").index.reserve(size); });
}

int idcwh_index_optimize(idcwh_index* index, const idcwh_optimize_options* options) {
    return guarded(
        [&] { with_options(options, [&](const auto& cpp) { expected(index, "index").index.optimize(cpp); }); });
}

int idcwh_index_drop_structures(idcwh_index* index) {
    return guarded([&] { expected(index, "index").index.drop_structures(); });
}

int idcwh_index_set_threads(idcwh_index* index, unsigned threads) {
    return guarded([&] { expected(index, "index").index.set_threads(threads); });
}

int idcwh_index_snapshot(const idcwh_index* index, idcwh_snapshot** snapshot) {
    return guarded([&] {
        expected(snapshot, "snapshot") = nullptr;
        *snapshot = new idcwh_snapshot{expected(index, "index").index.snapshot()};
    });
}

void idcwh_snapshot_free(idcwh_snapshot* snapshot) { delete snapshot; }
unsigned idcwh_snapshot_bits(const idcwh_snapshot* snapshot) { return snapshot ? view_of(snapshot).bits() : 0; }
size_t idcwh_snapshot_size(const idcwh_snapshot* snapshot) { return snapshot ? view_of(snapshot).size() : 0; }

int idcwh_snapshot_eligible(const idcwh_snapshot* snapshot, const idcwh_where* where, size_t* count) {
    return guarded([&] { expected(count, "count") = view_of(snapshot).eligible(where_of(where)); });
}

int idcwh_snapshot_topk(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq, size_t k,
                        const idcwh_query_options* options, int32_t* distances, int64_t* ids, size_t* kept) {
    return guarded([&] {
        put(kept, with(snapshot, options, [&](const auto& view, const auto& cpp) {
                return view.topk(queries, nq, k, distances, ids, cpp);
            }));
    });
}

int idcwh_snapshot_topk_ties(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq, size_t k,
                             const idcwh_query_options* options, idcwh_hits** hits) {
    return hits_of(hits, [&] {
        return with(snapshot, options,
                    [&](const auto& view, const auto& cpp) { return view.topk_ties(queries, nq, k, cpp); });
    });
}

int idcwh_snapshot_radius(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq, unsigned radius,
                          const idcwh_query_options* options, idcwh_hits** hits) {
    return hits_of(hits, [&] {
        return with(snapshot, options,
                    [&](const auto& view, const auto& cpp) { return view.radius(queries, nq, radius, cpp); });
    });
}

int idcwh_snapshot_count(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq, unsigned radius,
                         const idcwh_query_options* options, int64_t* counts) {
    return guarded([&] {
        with(snapshot, options,
             [&](const auto& view, const auto& cpp) { view.count(queries, nq, radius, counts, cpp); });
    });
}

int idcwh_snapshot_histogram(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq,
                             const idcwh_query_options* options, int64_t* counts) {
    return guarded([&] {
        with(snapshot, options, [&](const auto& view, const auto& cpp) { view.histogram(queries, nq, counts, cpp); });
    });
}

int idcwh_snapshot_rank(const idcwh_snapshot* snapshot, const uint8_t* queries, size_t nq,
                        const idcwh_query_options* options, int32_t* distances, int64_t* ids, size_t* kept) {
    return guarded([&] {
        put(kept, with(snapshot, options,
                       [&](const auto& view, const auto& cpp) { return view.rank(queries, nq, distances, ids, cpp); }));
    });
}

int idcwh_snapshot_contains(const idcwh_snapshot* snapshot, int64_t id, int* found) {
    return guarded([&] { expected(found, "found") = view_of(snapshot).contains(id); });
}

int idcwh_snapshot_get(const idcwh_snapshot* snapshot, const int64_t* ids, size_t count, uint8_t* out) {
    return guarded([&] { view_of(snapshot).get(ids, count, out); });
}

int idcwh_snapshot_copy(const idcwh_snapshot* snapshot, uint8_t* codes, int64_t* ids) {
    return guarded([&] { view_of(snapshot).copy(codes, ids); });
}

int idcwh_snapshot_memory(const idcwh_snapshot* snapshot, size_t* bytes) {
    return guarded([&] { expected(bytes, "bytes") = view_of(snapshot).memory(); });
}

int idcwh_snapshot_explain_topk(const idcwh_snapshot* snapshot, size_t k, size_t nq, const idcwh_where* where,
                                char* text, size_t capacity, size_t* length) {
    return guarded([&] {
        const auto& view = view_of(snapshot);
        put_text(view.explain_topk(k, nq, where_of(where)).text(), text, capacity, length);
    });
}

int idcwh_snapshot_explain_radius(const idcwh_snapshot* snapshot, unsigned radius, size_t nq, const idcwh_where* where,
                                  char* text, size_t capacity, size_t* length) {
    return guarded([&] {
        const auto& view = view_of(snapshot);
        put_text(view.explain_radius(radius, nq, where_of(where)).text(), text, capacity, length);
    });
}

int idcwh_snapshot_structures(const idcwh_snapshot* snapshot, char* text, size_t capacity, size_t* length) {
    return guarded([&] {
        std::string lines;
        for (const auto& structure : view_of(snapshot).structures())
            lines += structure.name + ": " + std::to_string(structure.codes) + " codes, " +
                     std::to_string(structure.bytes) + " bytes; " + structure.detail + "\n";
        put_text(lines, text, capacity, length);
    });
}
