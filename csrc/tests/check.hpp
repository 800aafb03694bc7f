// The test harness. TEST("name") { ... } registers a test case. A failing CHECK(a == b) prints the test, the line and
// both values, and the test continues. main returns run(), whose options are --list and --filter=TEXT.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__clang__)
#pragma clang diagnostic ignored "-Woverloaded-shift-op-parentheses"  // CHECK uses operator<<
#endif

namespace check {

struct Test {
    const char* name;
    void (*body)();
};
inline std::vector<Test> tests;  // in the order of the file
struct Registered {
    Registered(const char* name, void (*body)()) { tests.push_back({name, body}); }
};
struct Skipped {
    std::string why;
};
inline const char* running = "main";  // the name of the test
inline std::atomic<int> failures{0};  // any thread may fail

inline void fail(const char* file, int line, const char* what, const std::string* values = nullptr) {
    if (++failures <= 20)
        std::printf("%s:%d: test '%s': not true: %s%s%s\n", file, line, running, what, values ? ", found " : "",
                    values ? values->c_str() : "");
    delete values;
}

inline int finish() {
    if (failures) std::printf("%d checks failed\n", failures.load());
    return failures ? 1 : 0;
}

// Runs setup() and then the tests whose name contains the text of --filter. Returns 77 if setup() threw Skipped.
inline int run(int argc, char** argv, const std::function<void()>& setup = {}) {
    const char* filter = "";
    bool list = false;
    for (int i = 1; i < argc; ++i) {
        list = list || !std::strcmp(argv[i], "--list");
        if (!std::strncmp(argv[i], "--filter=", 9)) filter = argv[i] + 9;
    }
    std::erase_if(tests, [&](const Test& test) { return !std::strstr(test.name, filter); });
    if (tests.empty()) return std::printf("--filter: no test's name contains '%s'; see --list\n", filter), 2;
    try {
        if (setup && !list) setup();
    } catch (const Skipped& skipped) {
        return std::printf("skipped: %s\n", skipped.why.c_str()), 77;
    } catch (const std::exception& error) {
        return std::printf("%s\n", error.what()), 1;
    }
    for (const auto& [name, body] : tests) {
        running = name;
        if (list) std::printf("%s\n", name);
        try {
            if (!list) body();
        } catch (const std::exception& error) {
            fail(__FILE__, __LINE__, "no exception leaves the test", new std::string(error.what()));
        }
    }
    return finish();
}

template <class T>
std::string text(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
        return value ? "true" : "false";
    } else if constexpr (std::is_enum_v<T>) {
        return text(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_integral_v<T>) {
        return std::to_string(value);
    } else if constexpr (std::is_floating_point_v<T>) {
        char digits[32];
        std::snprintf(digits, sizeof digits, "%.17g", static_cast<double>(value));
        return digits;
    } else if constexpr (std::is_convertible_v<const T&, std::string_view> && !std::is_pointer_v<T>) {
        return '"' + std::string(std::string_view(value)) + '"';
    } else if constexpr (requires { value.size(), text(*value.begin()); }) {
        std::string all = std::to_string(value.size()) + " values {";
        auto at = value.begin();
        for (int i = 0; i < 16 && at != value.end(); ++i, ++at) all += (i ? ", " : "") + text(*at);
        return all + (at == value.end() ? "}" : ", ...}");
    } else {
        return "a value";
    }
}

// The condition of CHECK is Start() << a == b. a becomes a Left, whose comparison keeps both values of a false result.
struct Outcome {
    bool holds;
    const std::string* values = nullptr;  // for fail(), which deletes it; a type without destructor compiles faster
    template <class T>
    // a second check needs parentheses around the condition, or a CHECK of its own
    void operator&&(const T&) const = delete;
    template <class T>
    void operator||(const T&) const = delete;
};
inline Outcome differ(const std::string& left, const std::string& right) {
    return {false, new std::string(left + " and " + right)};
}
template <class T>
constexpr bool is_number = std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>;
template <class L>
struct Left {
    const L& left;
    operator Outcome() const { return {static_cast<bool>(left)}; }
#define CHECK_COMPARISON(op, compare)                                   \
    template <class R>                                                  \
    Outcome operator op(const R& right) const {                         \
        bool holds;                                                     \
        if constexpr (is_number<L> && is_number<R>)                     \
            holds = std::compare(left, right);                          \
        else                                                            \
            holds = left op right;                                      \
        return holds ? Outcome{true} : differ(text(left), text(right)); \
    }
    CHECK_COMPARISON(==, cmp_equal)
    CHECK_COMPARISON(!=, cmp_not_equal)
    CHECK_COMPARISON(<, cmp_less)
    CHECK_COMPARISON(<=, cmp_less_equal)
    CHECK_COMPARISON(>, cmp_greater)
    CHECK_COMPARISON(>=, cmp_greater_equal)
#undef CHECK_COMPARISON
};
struct Start {
    template <class T>
    Left<T> operator<<(const T& left) const {
        return {left};
    }
};

inline std::vector<std::uint8_t> random_bytes(std::size_t size, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::uint8_t> bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    return bytes;
}

// Returns codes with zero padding.
inline std::vector<std::uint8_t> random_codes(std::size_t n, unsigned bits, std::uint32_t seed) {
    const std::size_t bytes = (bits + 7) / 8;
    auto codes = random_bytes(n * bytes, seed);
    if (bits % 8)
        for (std::size_t i = 0; i < n; ++i)
            codes[i * bytes + bytes - 1] &= static_cast<std::uint8_t>((1 << bits % 8) - 1);
    return codes;
}

}  // namespace check

#define CHECK(...)                                                                           \
    do {                                                                                     \
        const check::Outcome outcome_ = check::Start() << __VA_ARGS__;                       \
        if (!outcome_.holds) check::fail(__FILE__, __LINE__, #__VA_ARGS__, outcome_.values); \
    } while (false)
#define CHECK_JOIN_(a, b) a##b
#define CHECK_JOIN(a, b) CHECK_JOIN_(a, b)
#define TEST(name)                                                                                       \
    static void CHECK_JOIN(test_, __LINE__)();                                                           \
    static const check::Registered CHECK_JOIN(registered_, __LINE__)(name, CHECK_JOIN(test_, __LINE__)); \
    static void CHECK_JOIN(test_, __LINE__)()
