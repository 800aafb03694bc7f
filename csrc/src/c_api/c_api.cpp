// The C API: errors, instruction sets, threads, and searches of codes in the caller's memory.
#include "c_api/c_api.hpp"

#include <idcwh/isa.hpp>
#include <idcwh/threads.hpp>
#include <idcwh/version.hpp>

#include <cstring>
#include <new>
#include <stdexcept>

#include "cpu/dispatch.hpp"

namespace idcwh::c_api {
namespace {

// Fixed arrays, because storing a message must not fail for lack of memory.
thread_local char last_error[1024];
thread_local char last_path[4096];
thread_local int last_errno = 0;

int remember(int status, const char* message, const char* path = "", int error_number = 0) noexcept {
    std::strncpy(last_error, message, sizeof last_error - 1);
    std::strncpy(last_path, path, sizeof last_path - 1);
    last_errno = error_number;
    return status;
}

static_assert(IDCWH_INVALID_ARGUMENT == static_cast<int>(ErrorCode::invalid_argument) &&
              IDCWH_UNSUPPORTED == static_cast<int>(ErrorCode::unsupported) &&
              IDCWH_NOT_FOUND == static_cast<int>(ErrorCode::not_found) &&
              IDCWH_INTERRUPTED == static_cast<int>(ErrorCode::interrupted) &&
              IDCWH_SYSTEM == static_cast<int>(ErrorCode::system) &&
              IDCWH_CORRUPT == static_cast<int>(ErrorCode::corrupt) &&
              IDCWH_LOCKED == static_cast<int>(ErrorCode::locked));

Rows rows_of(const idcwh_rows& rows) {
    static_assert(IDCWH_ROWS_RANGE == static_cast<int>(Rows::Kind::range) &&
                  IDCWH_ROWS_LIST == static_cast<int>(Rows::Kind::list) &&
                  IDCWH_ROWS_BITMAP == static_cast<int>(Rows::Kind::bitmap) &&
                  IDCWH_ROWS_BYTES == static_cast<int>(Rows::Kind::bytes));
    return {kind_of(rows.kind, Rows::Kind::bytes, "rows.kind"),
            rows.begin,
            rows.end,
            rows.list,
            rows.count,
            rows.bitmap,
            rows.bytes};
}

// Calls search() with codes and options in C++ form.
template <class Search>
auto with(const idcwh_codes* codes, const idcwh_search_options* options, Search search) {
    const Codes view = codes_of(codes);
    SearchOptions cpp;
    const InterruptOf interrupt(options);
    if (options) {
        cpp.ids = options->ids;
        cpp.rows = rows_of(options->rows);
        cpp.threads = options->threads;
        cpp.interrupt = interrupt.get();
    }
    return search(view, cpp);
}

}  // namespace

int status_of_exception() noexcept {
    try {
        throw;
    } catch (const SystemError& error) {
        return remember(IDCWH_SYSTEM, error.what(), error.path().c_str(), error.error_number());
    } catch (const Error& error) {
        return remember(static_cast<int>(error.code()), error.what(), error.path().c_str());
    } catch (const std::bad_alloc&) {
        return remember(IDCWH_OUT_OF_MEMORY, "out of memory");
    } catch (const std::length_error&) {  // more than a vector can ever hold
        return remember(IDCWH_OUT_OF_MEMORY, "out of memory: the result does not fit the address space");
    } catch (const std::exception& error) {
        return remember(IDCWH_FAILED, error.what());
    } catch (...) {
        return remember(IDCWH_FAILED, "unknown exception");
    }
}

void fail_null(const char* name) {
    throw Error(ErrorCode::invalid_argument, {.path = name, .found = "null", .expected = "a valid pointer"});
}

}  // namespace idcwh::c_api

using namespace idcwh::c_api;

const char* idcwh_last_error() { return last_error; }
const char* idcwh_last_error_path() { return last_path; }
int idcwh_last_errno() { return last_errno; }

#define IDCWH_TEXT_OF(x) #x
#define IDCWH_TEXT(x) IDCWH_TEXT_OF(x)
const char* idcwh_version() {
    return IDCWH_TEXT(IDCWH_VERSION_MAJOR) "." IDCWH_TEXT(IDCWH_VERSION_MINOR) "." IDCWH_TEXT(IDCWH_VERSION_PATCH);
}

const char* idcwh_isa() {
    const char* name = nullptr;
    guarded([&] { name = idcwh::active_kernels().name; });
    return name;
}

int idcwh_isa_force(const char* name) {
    return guarded([&] { idcwh::isa_force(&expected(name, "name")); });
}

int idcwh_set_threads(unsigned threads) {
    return guarded([&] { idcwh::set_threads(threads); });
}

unsigned idcwh_threads() {
    unsigned threads = 1;  // if IDCWH_THREADS is invalid
    guarded([&] { threads = idcwh::threads(); });
    return threads;
}

int idcwh_set_executor(idcwh_executor executor, void* context) {
    return guarded([&] {
        if (!executor) return idcwh::set_executor({});
        idcwh::set_executor([=](std::size_t tasks, unsigned threads, const std::function<void(std::size_t)>& body) {
            const idcwh_body call = [](void* work, std::size_t task) {
                (*static_cast<const std::function<void(std::size_t)>*>(work))(task);
            };
            executor(context, tasks, threads, call, const_cast<std::function<void(std::size_t)>*>(&body));
        });
    });
}

size_t idcwh_hits_queries(const idcwh_hits* hits) { return hits ? hits->hits.limits.size() - 1 : 0; }
const int64_t* idcwh_hits_limits(const idcwh_hits* hits) { return hits ? hits->hits.limits.data() : nullptr; }
const int32_t* idcwh_hits_distances(const idcwh_hits* hits) { return hits ? hits->hits.distances.data() : nullptr; }
const int64_t* idcwh_hits_ids(const idcwh_hits* hits) { return hits ? hits->hits.ids.data() : nullptr; }
void idcwh_hits_free(idcwh_hits* hits) { delete hits; }

int idcwh_eligible(const idcwh_codes* codes, const idcwh_search_options* options, size_t* count) {
    return guarded([&] {
        expected(count, "count") =
            with(codes, options, [](const auto& view, const auto& cpp) { return idcwh::eligible(view, cpp); });
    });
}

int idcwh_topk(const idcwh_codes* codes, const uint8_t* queries, size_t nq, size_t k,
               const idcwh_search_options* options, int32_t* distances, int64_t* ids, size_t* kept) {
    return guarded([&] {
        put(kept, with(codes, options, [&](const auto& view, const auto& cpp) {
                return idcwh::topk(view, queries, nq, k, distances, ids, cpp);
            }));
    });
}

int idcwh_topk_ties(const idcwh_codes* codes, const uint8_t* queries, size_t nq, size_t k,
                    const idcwh_search_options* options, idcwh_hits** hits) {
    return hits_of(hits, [&] {
        return with(codes, options,
                    [&](const auto& view, const auto& cpp) { return idcwh::topk_ties(view, queries, nq, k, cpp); });
    });
}

int idcwh_radius(const idcwh_codes* codes, const uint8_t* queries, size_t nq, unsigned radius,
                 const idcwh_search_options* options, idcwh_hits** hits) {
    return hits_of(hits, [&] {
        return with(codes, options,
                    [&](const auto& view, const auto& cpp) { return idcwh::radius(view, queries, nq, radius, cpp); });
    });
}

int idcwh_count(const idcwh_codes* codes, const uint8_t* queries, size_t nq, unsigned radius,
                const idcwh_search_options* options, int64_t* counts) {
    return guarded([&] {
        with(codes, options,
             [&](const auto& view, const auto& cpp) { idcwh::count(view, queries, nq, radius, counts, cpp); });
    });
}

int idcwh_histogram(const idcwh_codes* codes, const uint8_t* queries, size_t nq, const idcwh_search_options* options,
                    int64_t* counts) {
    return guarded([&] {
        with(codes, options,
             [&](const auto& view, const auto& cpp) { idcwh::histogram(view, queries, nq, counts, cpp); });
    });
}

int idcwh_rank(const idcwh_codes* codes, const uint8_t* queries, size_t nq, const idcwh_search_options* options,
               int32_t* distances, int64_t* ids, size_t* kept) {
    return guarded([&] {
        put(kept, with(codes, options, [&](const auto& view, const auto& cpp) {
                return idcwh::rank(view, queries, nq, distances, ids, cpp);
            }));
    });
}

int idcwh_padding_is_zero(const idcwh_codes* codes, int* result) {
    return guarded([&] { expected(result, "result") = idcwh::padding_is_zero(codes_of(codes)); });
}
