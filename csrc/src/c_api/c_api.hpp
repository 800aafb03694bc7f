// Helpers of the C API: they turn exceptions into a status and a message, null pointers into errors, and C structures
// into those of C++.
#pragma once

#include <idcwh/idcwh.h>
#include <idcwh/database.hpp>
#include <idcwh/error.hpp>
#include <idcwh/index.hpp>
#include <idcwh/search.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

struct idcwh_hits {
    idcwh::Hits hits;
};

struct idcwh_snapshot {
    std::variant<idcwh::Snapshot, idcwh::DatabaseSnapshot> snapshot;
};

namespace idcwh::c_api {

// Stores the message of the current exception for idcwh_last_error(), and returns its status. Exported for the library
// idcwh_encoder, which reports errors in the same way.
IDCWH_API int status_of_exception() noexcept;

// Calls body and returns the status of the C function.
template <class Body>
int guarded(Body body) noexcept {
    try {
        body();
        return IDCWH_OK;
    } catch (...) {
        return status_of_exception();
    }
}

[[noreturn]] IDCWH_API void fail_null(const char* name);

// Returns what the pointer refers to. Throws Error(invalid_argument) if it is null.
template <class T>
T& expected(T* pointer, const char* name) {
    if (!pointer) fail_null(name);
    return *pointer;
}

// Converts a number of C to an enumeration. Throws Error(invalid_argument) above `last`.
template <class Kind>
Kind kind_of(int kind, Kind last, const char* name) {
    if (kind < 0 || kind > static_cast<int>(last))
        throw Error(ErrorCode::invalid_argument, {.path = name,
                                                  .found = std::to_string(kind),
                                                  .expected = "0 to " + std::to_string(static_cast<int>(last))});
    return static_cast<Kind>(kind);
}

inline Codes codes_of(const idcwh_codes* codes, const char* name = "codes") {
    const auto& c = expected(codes, name);
    return {c.data, c.size, c.bits};
}

inline const Snapshot& view_of(const idcwh_snapshot* snapshot, const char* name = "snapshot") {
    return std::visit([](const Snapshot& view) -> const auto& { return view; }, expected(snapshot, name).snapshot);
}

inline Where where_of(const idcwh_where* where) {
    static_assert(IDCWH_WHERE_IDS == static_cast<int>(Where::Kind::ids) &&
                  IDCWH_WHERE_ID_RANGE == static_cast<int>(Where::Kind::id_range) &&
                  IDCWH_WHERE_BYTES == static_cast<int>(Where::Kind::bytes) &&
                  IDCWH_WHERE_BITMAP == static_cast<int>(Where::Kind::bitmap));
    if (!where) return {};
    return {kind_of(where->kind, Where::Kind::bitmap, "where.kind"),
            where->ids,
            where->count,
            where->first,
            where->last,
            where->bytes,
            where->bitmap};
}

// An Interrupt that calls the C function of the options. It must live as long as the search.
class InterruptOf {
public:
    template <class Options>
    explicit InterruptOf(const Options* options) {
        if (!options || !options->interrupt) return;
        function_ = options->interrupt;
        context_ = options->interrupt_context;
        interrupt_ = {[](void* self) {
                          const auto* interrupt = static_cast<const InterruptOf*>(self);
                          return interrupt->function_(interrupt->context_) != 0;
                      },
                      this};
    }
    InterruptOf(const InterruptOf&) = delete;
    InterruptOf& operator=(const InterruptOf&) = delete;
    const Interrupt* get() const { return function_ ? &interrupt_ : nullptr; }

private:
    idcwh_interrupt function_ = nullptr;
    void* context_ = nullptr;
    Interrupt interrupt_;
};

// Calls optimize() with the options in C++ form.
template <class Optimize>
void with_options(const idcwh_optimize_options* options, Optimize optimize) {
    const InterruptOf interrupt(options);
    OptimizeOptions cpp;
    if (options) {
        if (options->memory) cpp.memory = options->memory;
        cpp.threads = options->threads;
        cpp.interrupt = interrupt.get();
    }
    optimize(cpp);
}

// Writes a value unless the pointer is null.
template <class T>
void put(T* out, T value) {
    if (out) *out = value;
}

// Writes at most capacity - 1 bytes of a text and a terminating zero.
inline void put_text(std::string_view from, char* text, std::size_t capacity, std::size_t* length) {
    put(length, from.size());
    if (!capacity) return;
    const std::size_t fits = std::min(from.size(), capacity - 1);
    expected(text, "text") = 0;
    if (fits) std::memcpy(text, from.data(), fits);
    text[fits] = 0;
}

// Returns views of texts. If lengths is null, texts end with a zero byte. A null text yields a view whose data is null.
inline std::vector<std::string_view> views_of(const char* const* texts, const std::size_t* lengths, std::size_t count) {
    std::vector<std::string_view> views(count);
    for (std::size_t i = 0; i < count; ++i)
        if (texts[i]) views[i] = lengths ? std::string_view(texts[i], lengths[i]) : std::string_view(texts[i]);
    return views;
}

// Returns views of keys. Throws Error(invalid_argument) if `keys` is null although count is not 0.
inline std::vector<std::string_view> keys_of(const char* const* keys, const std::size_t* lengths, std::size_t count) {
    if (count) expected(keys, "keys");
    return views_of(keys, lengths, count);
}

// Runs a search that returns Hits and stores them in a new handle.
template <class Search>
int hits_of(idcwh_hits** out, Search search) noexcept {
    return guarded([&] {
        expected(out, "hits") = nullptr;
        *out = new idcwh_hits{search()};
    });
}

}  // namespace idcwh::c_api
