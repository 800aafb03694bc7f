// JSON, as much as models and databases carry: a strict reader, and strings for a writer. NaN and Infinity are numbers,
// because Python writes them.
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
    std::string text;          // a number as it is written, a string in UTF-8
    std::vector<Value> items;  // of an array, or the values of an object
    std::vector<std::string> names;

    const Value* find(std::string_view name) const;  // a member of an object, or null
    const char* kind_name() const;
};

// Error(invalid_argument) says at which byte it ends to be JSON. A name twice in an object is an error too.
Value parse(std::string_view text);

// In quotes, all that is not plain ASCII escaped, as Python's json.dumps does. Bytes that are not UTF-8 become U+FFFD.
std::string quoted(std::string_view utf8);

}  // namespace idcwh::json
