// The JSON reader: valid texts and their values, invalid texts, and random bytes without reads outside the text.
#include "base/json.hpp"

#include <idcwh/error.hpp>

#include <string>

#include "check.hpp"

using idcwh::json::parse;
using idcwh::json::quoted;
using idcwh::json::Value;

namespace {

bool refused(const std::string& text) {
    // Copies the text, so that the address sanitizer detects a read beyond it.
    const std::vector<char> copy(text.begin(), text.end());
    try {
        parse({copy.data(), copy.size()});
        return false;
    } catch (const idcwh::Error& error) {
        CHECK(error.code() == idcwh::ErrorCode::invalid_argument);
        CHECK(std::string(error.what()).starts_with("not JSON: "));
        return true;
    }
}

TEST("parse returns the values of a valid text") {
    const Value value =
        parse(" {\"a\": [1, -0.5e+3, true, null, NaN, -Infinity], \"\\u0062\" : \"x\\n\\u00e9\\ud83d\\ude00\\/\"}\n");
    CHECK(value.kind == Value::Kind::object);
    CHECK(value.names == std::vector<std::string>({"a", "b"}));
    const Value& list = *value.find("a");
    CHECK(list.items.size() == 6);
    CHECK(list.items[0].text == "1");
    CHECK(list.items[1].text == "-0.5e+3");
    CHECK(list.items[2].kind == Value::Kind::boolean);
    CHECK(list.items[2].truth);
    CHECK(list.items[3].kind == Value::Kind::null);
    CHECK(list.items[4].kind == Value::Kind::number);
    CHECK(value.find("b")->text == "x\n\xc3\xa9\xf0\x9f\x98\x80/");
    CHECK(!value.find("c"));
    CHECK(parse("\"caf\\udce9\"").text == "caf\xe9");  // json.dumps of os.fsdecode(b"caf\xe9")
    CHECK(parse("[]").items.empty());
    CHECK(parse("{ }").names.empty());
    CHECK(parse("0").text == "0");
    CHECK(!parse("false").truth);
}

TEST("parse of an invalid text raises") {
    for (const char* text : {"",
                             " ",
                             "{",
                             "}",
                             "[",
                             "[1",
                             "[1,",
                             "[1,]",
                             "[,1]",
                             "{\"a\"}",
                             "{\"a\":}",
                             "{\"a\":1,}",
                             "{a:1}",
                             "{'a':1}",
                             "{\"a\":1 \"b\":2}",
                             "{\"a\":1,\"a\":2}",
                             "01",
                             "-",
                             "+1",
                             "1.",
                             ".5",
                             "1e",
                             "1e+",
                             "0x10",
                             "tru",
                             "True",
                             "nul",
                             "nan",
                             "Inf",
                             "\"",
                             "\"a",
                             "\"\\",
                             "\"\\x\"",
                             "\"\\u12\"",
                             "\"\\u12g4\"",
                             "\"\\ud800\"",
                             "\"\\ud800\\u0041\"",
                             "\"\\udc00\"",
                             "\"\t\"",
                             "1 2",
                             "[1] x",
                             "\xef\xbb\xbf{}",
                             "/* */ 1",
                             "[1]]"})
        CHECK(refused(text));
    CHECK(refused(std::string("\"a\0b\"", 5)));
    CHECK(refused(std::string(100000, '[')));
    std::string deep = "1";
    for (int i = 0; i < 50; ++i) deep = "[" + deep + "]";
    CHECK(!refused(deep));
}

// Each prefix of a valid text, and each text with one changed byte, is read or raises.
TEST("parse of a corrupt text returns or raises") {
    const std::string good = R"({"resize": 240, "crop": [1.5e-3, "\u00e9\\"], "x": {"y": null}})";
    for (std::size_t size = 0; size < good.size(); ++size) CHECK(refused(good.substr(0, size)));
    for (std::size_t at = 0; at < good.size(); ++at)
        for (int byte = 0; byte < 256; ++byte) {
            std::string text = good;
            text[at] = static_cast<char>(byte);
            refused(text);
        }
    std::mt19937 random(1);
    const std::string letters = "{}[]\",:\\u0123456789eE+-.truefalsn \xc3";
    for (int i = 0; i < 20000; ++i) {
        std::string text(random() % 30, ' ');
        for (char& c : text) c = letters[random() % letters.size()];
        refused(text);
    }
}

TEST("quoted escapes what JSON and ASCII require") {
    CHECK(quoted("a\"\\\n\x7f") == "\"a\\\"\\\\\\u000a\\u007f\"");
    CHECK(quoted("\xc3\xa9\xf0\x9f\x98\x80") == "\"\\u00e9\\ud83d\\ude00\"");
    // Not UTF-8: truncated, a single continuation byte, an overlong form, a surrogate, beyond the last character.
    CHECK(quoted("\xc3") == "\"\\ufffd\"");
    CHECK(quoted("\x80x") == "\"\\ufffdx\"");
    CHECK(quoted("\xc0\xaf") == "\"\\ufffd\\ufffd\"");
    CHECK(quoted("\xed\xa0\x80") == "\"\\ufffd\\ufffd\\ufffd\"");
    CHECK(quoted("\xf4\x90\x80\x80") == "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    CHECK(quoted("\xff") == "\"\\ufffd\"");
    CHECK(parse(quoted("\xe2\x82\xac \xf0\x90\x8d\x88 \"\\")).text == "\xe2\x82\xac \xf0\x90\x8d\x88 \"\\");
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
