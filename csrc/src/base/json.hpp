// A strict JSON parser for the metadata of models and databases, and a writer of JSON strings. NaN and Infinity are
// numbers, because Python writes them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace idcwh::json {

struct Value {
    enum class Kind { null, boolean, number, string, array, object };
    Kind kind = Kind::null;
    bool truth = false;
    std::string text;                // a number as it is written, a string in UTF-8
    std::vector<Value> items;        // elements of an array, or values of an object
    std::vector<std::string> names;  // names of an object's values

    const Value* find(std::string_view name) const;  // returns a member of an object, or null
    const char* kind_name() const;
};

// Parses a text. Throws Error(invalid_argument) with the position of the first error. A repeated name in an object is
// an error too.
Value parse(std::string_view text);

// Returns a JSON string with all characters except printable ASCII escaped, like Python's json.dumps. Bytes that are
// not UTF-8 become U+FFFD.
std::string quoted(std::string_view utf8);

}  // namespace idcwh::json
