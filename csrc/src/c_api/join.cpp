// The C API: joins and clusters.
#include <idcwh/join.hpp>

#include <memory>
#include <optional>

#include "c_api/c_api.hpp"

struct idcwh_pairs {
    explicit idcwh_pairs(const idcwh_join_options* options) : interrupt(options) {}
    const idcwh::c_api::InterruptOf interrupt;
    std::optional<idcwh::PairStream> stream;
};

namespace {

using namespace idcwh::c_api;
using idcwh::ClusterMode;
using idcwh::JoinOptions;

JoinOptions options_of(const idcwh_join_options* options, const InterruptOf& interrupt) {
    JoinOptions cpp;
    if (options) {
        cpp.threads = options->threads;
        if (options->max_pairs) cpp.max_pairs = options->max_pairs;
        cpp.interrupt = interrupt.get();
    }
    return cpp;
}

// Stores the stream that join(options) returns in a new handle.
template <class Join>
int pairs_of(idcwh_pairs** out, const idcwh_join_options* options, Join join) noexcept {
    return guarded([&] {
        expected(out, "pairs") = nullptr;
        auto pairs = std::make_unique<idcwh_pairs>(options);
        pairs->stream.emplace(join(options_of(options, pairs->interrupt)));
        *out = pairs.release();
    });
}

// Writes the number that count(options) returns.
template <class Number, class Count>
int number_of(Number* out, const idcwh_join_options* options, Count count) noexcept {
    return guarded([&] {
        const InterruptOf interrupt(options);
        put(out, count(options_of(options, interrupt)));
    });
}

ClusterMode mode_of(int mode) {
    static_assert(IDCWH_CLUSTERS_COMPONENTS == static_cast<int>(ClusterMode::components) &&
                  IDCWH_CLUSTERS_GREEDY == static_cast<int>(ClusterMode::greedy));
    return kind_of(mode, ClusterMode::greedy, "mode");
}

}  // namespace

int idcwh_join(const idcwh_codes* a, const idcwh_codes* b, unsigned radius, const idcwh_join_options* options,
               idcwh_pairs** pairs) {
    return pairs_of(pairs, options, [&](const JoinOptions& cpp) {
        const auto first = codes_of(a, "a");
        return b ? idcwh::join(first, codes_of(b, "b"), radius, cpp) : idcwh::self_join(first, radius, cpp);
    });
}

int idcwh_snapshot_join(const idcwh_snapshot* a, const idcwh_snapshot* b, unsigned radius, const idcwh_where* where,
                        const idcwh_join_options* options, idcwh_pairs** pairs) {
    return pairs_of(pairs, options, [&](const JoinOptions& cpp) {
        const auto& first = view_of(a, "a");
        return b ? idcwh::join(first, view_of(b, "b"), radius, cpp, where_of(where))
                 : idcwh::self_join(first, radius, cpp, where_of(where));
    });
}

int idcwh_pairs_next(idcwh_pairs* pairs, size_t capacity, int64_t* first, int64_t* second, int32_t* distances,
                     size_t* count) {
    return guarded([&] {
        auto& written = expected(count, "count");  // checked before pairs are read
        written = expected(pairs, "pairs").stream->next(first, second, distances, capacity);
    });
}

int idcwh_pairs_explain(const idcwh_pairs* pairs, char* text, size_t capacity, size_t* length) {
    return guarded([&] { put_text(expected(pairs, "pairs").stream->explain(), text, capacity, length); });
}

void idcwh_pairs_free(idcwh_pairs* pairs) { delete pairs; }

int idcwh_count_pairs(const idcwh_codes* a, const idcwh_codes* b, unsigned radius, const idcwh_join_options* options,
                      uint64_t* count) {
    return number_of(count, options, [&](const JoinOptions& cpp) {
        expected(count, "count");
        const auto first = codes_of(a, "a");
        return b ? idcwh::count_pairs(first, codes_of(b, "b"), radius, cpp) : idcwh::count_pairs(first, radius, cpp);
    });
}

int idcwh_snapshot_count_pairs(const idcwh_snapshot* a, const idcwh_snapshot* b, unsigned radius,
                               const idcwh_where* where, const idcwh_join_options* options, uint64_t* count) {
    return number_of(count, options, [&](const JoinOptions& cpp) {
        expected(count, "count");
        const auto& first = view_of(a, "a");
        return b ? idcwh::count_pairs(first, view_of(b, "b"), radius, cpp, where_of(where))
                 : idcwh::count_pairs(first, radius, cpp, where_of(where));
    });
}

int idcwh_cluster(const idcwh_codes* codes, unsigned radius, int mode, const idcwh_join_options* options,
                  int64_t* clusters, size_t* count) {
    return number_of(count, options, [&](const JoinOptions& cpp) {
        return idcwh::cluster(codes_of(codes), radius, mode_of(mode), clusters, cpp);
    });
}

int idcwh_snapshot_cluster(const idcwh_snapshot* snapshot, unsigned radius, int mode, const idcwh_where* where,
                           const idcwh_join_options* options, int64_t* ids, int64_t* clusters, size_t* count) {
    return number_of(count, options, [&](const JoinOptions& cpp) {
        return idcwh::cluster(view_of(snapshot), radius, mode_of(mode), ids, clusters, cpp, where_of(where));
    });
}
