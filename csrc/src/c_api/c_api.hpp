// What the files of the C ABI share: exceptions become a status and a message, null pointers become errors.
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
    std::variant<idcwh::Snapshot, idcwh::DatabaseSnapshot> of;
};

namespace idcwh::c_api {

// Keeps the message of the exception that is being handled for idcwh_last_error, and returns its status.
// Exported for the library idcwh_encoder, whose functions fail in the same way.
IDCWH_API int status_of_exception() noexcept;

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

template <class T>
T& expected(T* pointer, const char* name) {
    if (!pointer) fail_null(name);
    return *pointer;
}

// The enumeration that is `kind` in C.
template <class Kind>
Kind kind_of(int kind, Kind last, const char* name) {
    if (kind < 0 || kind > static_cast<int>(last))
        throw Error(ErrorCode::invalid_argument, std::string(name) + " must be 0 to " +
                                                     std::to_string(static_cast<int>(last)) + ", not " +
                                                     std::to_string(kind));
    return static_cast<Kind>(kind);
}

// A C interrupt as the engine asks for it; lives as long as the call that it may end.
class InterruptOf {
public:
    template <class Options>
    explicit InterruptOf(const Options* options) {
        if (!options || !options->interrupt) return;
        function_ = options->interrupt;
        context_ = options->interrupt_context;
        interrupt_ = {[](void* self) {
                          const auto* here = static_cast<const InterruptOf*>(self);
                          return here->function_(here->context_) != 0;
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

// Calls optimize(options) with their C++ form.
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

template <class T>
void put(T* out, T value) {
    if (out) *out = value;
}

// At most capacity - 1 bytes of a text, and an end.
inline void put_text(std::string_view from, char* text, std::size_t capacity, std::size_t* length) {
    put(length, from.size());
    if (!capacity) return;
    const std::size_t fits = std::min(from.size(), capacity - 1);
    expected(text, "text") = 0;
    if (fits) std::memcpy(text, from.data(), fits);
    text[fits] = 0;
}

// Texts by pointer and length, or with an end where lengths is null; one that is null has no data.
inline std::vector<std::string_view> views_of(const char* const* texts, const std::size_t* lengths, std::size_t count) {
    std::vector<std::string_view> views(count);
    for (std::size_t i = 0; i < count; ++i)
        if (texts[i]) views[i] = lengths ? std::string_view(texts[i], lengths[i]) : std::string_view(texts[i]);
    return views;
}

// The same, of keys that are looked for.
inline std::vector<std::string_view> keys_of(const char* const* keys, const std::size_t* lengths, std::size_t count) {
    if (count) expected(keys, "keys");
    return views_of(keys, lengths, count);
}

// Runs a search whose result is Hits and hands it over as a handle.
template <class Search>
int hits_of(idcwh_hits** out, Search search) noexcept {
    return guarded([&] {
        expected(out, "hits") = nullptr;
        *out = new idcwh_hits{search()};
    });
}

}  // namespace idcwh::c_api
