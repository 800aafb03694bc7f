// A JSON parser by recursive descent, and the escaping of strings.
#include "base/json.hpp"

#include <idcwh/error.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace idcwh::json {
namespace {

constexpr int max_depth = 100;  // limits the stack that a malicious file can use

void append_utf8(std::string& to, std::uint32_t code) {
    const auto put = [&](std::uint32_t byte) { to.push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    } else {
        put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f)),
            put(0x80 | (code & 0x3f));
    }
}

class Reader {
public:
    explicit Reader(std::string_view text) : text_(text) {}

    Value all() {
        Value value = read(0);
        blanks();
        if (at_ < text_.size()) fail("expected the end");
        return value;
    }

private:
    [[noreturn]] void fail(const char* what) const {
        throw Error(ErrorCode::invalid_argument, "not JSON: " + std::string(what) + ", at byte " + std::to_string(at_));
    }

    int next() const { return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : -1; }
    void blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
    bool skip(std::string_view word) {
        if (text_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }

    Value read(int depth) {
        if (depth > max_depth) fail("nested too deeply");
        blanks();
        Value value;
        const auto literal = [&](std::string_view word, Value::Kind kind) {
            value.kind = kind, value.text = word;
            return skip(word);
        };
        if (next() == '{') return object(depth);
        if (next() == '[') return array(depth);
        if (next() == '"') {
            value.kind = Value::Kind::string;
            value.text = string();
            return value;
        }
        if (literal("true", Value::Kind::boolean)) return value.truth = true, value;
        if (literal("false", Value::Kind::boolean) || literal("null", Value::Kind::null)) return value;
        for (const auto* word : {"NaN", "Infinity", "-Infinity"})
            if (literal(word, Value::Kind::number)) return value;
        value.kind = Value::Kind::number;
        value.text = number();
        return value;
    }

    Value object(int depth) {
        Value value;
        value.kind = Value::Kind::object;
        ++at_;
        blanks();
        if (skip("}")) return value;
        do {
            blanks();
            if (next() != '"') fail("expected a name");
            std::string name = string();
            if (value.find(name)) fail("repeated name");
            blanks();
            if (!skip(":")) fail("expected a colon");
            value.items.push_back(read(depth + 1));
            value.names.push_back(std::move(name));
            blanks();
        } while (skip(","));
        if (!skip("}")) fail("expected a comma or }");
        return value;
    }

    Value array(int depth) {
        Value value;
        value.kind = Value::Kind::array;
        ++at_;
        blanks();
        if (skip("]")) return value;
        do {
            value.items.push_back(read(depth + 1));
            blanks();
        } while (skip(","));
        if (!skip("]")) fail("expected a comma or ]");
        return value;
    }

    void digits() {
        if (next() < '0' || next() > '9') fail("expected a value");
        while (next() >= '0' && next() <= '9') ++at_;
    }

    std::string number() {
        const std::size_t begin = at_;
        skip("-");
        if (!skip("0")) digits();
        if (skip(".")) digits();
        if (skip("e") || skip("E")) {
            if (!skip("+")) skip("-");
            digits();
        }
        return std::string(text_.substr(begin, at_ - begin));
    }

    std::uint32_t four_digits() {
        std::uint32_t code = 0;
        for (int i = 0; i < 4; ++i, ++at_) {
            const int c = next(), letter = c | 0x20;
            if (c >= '0' && c <= '9') {
                code = code * 16 + static_cast<std::uint32_t>(c - '0');
            } else if (c >= 0 && letter >= 'a' && letter <= 'f') {
                code = code * 16 + static_cast<std::uint32_t>(letter - 'a' + 10);
            } else {
                fail("expected four hexadecimal digits");
            }
        }
        return code;
    }

    void escape(std::string& to) {
        constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
        if (const auto i = letters.find(static_cast<char>(next())); next() > 0 && i != letters.npos) {
            ++at_;
            to.push_back(meant[i]);
            return;
        }
        if (!skip("u")) fail("unknown escape");
        std::uint32_t code = four_digits();
        if (code >= 0xd800 && code < 0xdc00 && skip("\\u")) {
            const std::uint32_t low = four_digits();
            if (low < 0xdc00 || low > 0xdfff) fail("lone surrogate");
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        // Python writes a byte of a file name that is not UTF-8 as such a lone surrogate (surrogateescape).
        if (code >= 0xdc80 && code <= 0xdcff) {
            to.push_back(static_cast<char>(code - 0xdc00));
            return;
        }
        if (code >= 0xd800 && code < 0xe000) fail("lone surrogate");
        append_utf8(to, code);
    }

    std::string string() {
        std::string value;
        ++at_;
        while (!skip("\"")) {
            if (next() < 0x20) fail(next() < 0 ? "expected the end of a string" : "control character in a string");
            if (skip("\\"))
                escape(value);
            else
                value.push_back(text_[at_++]);
        }
        return value;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

// Returns the character at `at` and moves `at` past it. Returns U+FFFD for bytes that are not UTF-8.
std::uint32_t character(std::string_view text, std::size_t& at) {
    constexpr std::uint32_t unknown = 0xfffd;
    const auto first = static_cast<unsigned char>(text[at++]);
    if (first < 0x80) return first;
    const unsigned more = first >= 0xf0 && first < 0xf5 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
    if (!more || first >= 0xf5) return unknown;
    std::uint32_t code = first & (0x3f >> more);
    for (unsigned i = 0; i < more; ++i) {
        const unsigned char byte = at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
        if ((byte & 0xc0) != 0x80) return unknown;
        code = code << 6 | (byte & 0x3f);
    }
    constexpr std::uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return unknown;
    at += more;
    return code;
}

void append_escape(std::string& to, std::uint32_t unit) {
    char text[8];
    std::snprintf(text, sizeof text, "\\u%04x", unit);
    to += text;
}

}  // namespace

const Value* Value::find(std::string_view name) const {
    const auto found = std::find(names.begin(), names.end(), name);
    return found == names.end() ? nullptr : &items[static_cast<std::size_t>(found - names.begin())];
}

const char* Value::kind_name() const {
    constexpr const char* names_of[] = {"null", "true or false", "a number", "a string", "a list", "an object"};
    return names_of[static_cast<int>(kind)];
}

Value parse(std::string_view text) { return Reader(text).all(); }

std::string quoted(std::string_view utf8) {
    std::string text = "\"";
    for (std::size_t at = 0; at < utf8.size();) {
        const std::uint32_t code = character(utf8, at);
        if (code == '"' || code == '\\') {
            text += '\\', text += static_cast<char>(code);
        } else if (code >= 0x20 && code < 0x7f) {
            text += static_cast<char>(code);
        } else if (code < 0x10000) {
            append_escape(text, code);
        } else {
            append_escape(text, 0xd800 + ((code - 0x10000) >> 10));
            append_escape(text, 0xdc00 + ((code - 0x10000) & 0x3ff));
        }
    }
    return text + '"';
}

}  // namespace idcwh::json
