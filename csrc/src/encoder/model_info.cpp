#include "encoder/model_info.hpp"

#include <algorithm>

#include "base/json.hpp"

namespace idcwh {
namespace {

constexpr unsigned max_bits = 65535;  // the limit of a search

using Kind = json::Value::Kind;

class Reader {
public:
    Reader(const Session& session, const std::string& name) : session_(session), name_(name) {}

    ModelInfo read() const {
        const auto format = session_.metadata("idcwh_format");
        if (!format) fail(std::string("an ONNX model without idcwh metadata; ") + without_metadata);
        if (*format != "1") fail("metadata of format " + *format + "; this version of idcwh reads format 1");
        fixed("idcwh_bit_order", "little");  // the only bit order that is defined
        fixed("idcwh_threshold", ">= 0");
        ModelInfo info{bits(), preprocess(), {}, {}, {}, {}};
        for (const auto& value : json_of("idcwh_classes", Kind::array).items) {
            if (value.kind != Kind::string)
                fail(std::string("idcwh_classes holds ") + value.kind_name() + "; expected strings");
            info.classes.push_back(value.text);
        }
        info.method = object("idcwh_method");
        info.backbone = object("idcwh_backbone");
        info.precision = session_.metadata("idcwh_precision").value_or("fp32");
        if (info.precision != "fp32" && info.precision != "fp16" && info.precision != "int8")
            fail("idcwh_precision is '" + info.precision + "'; this version of idcwh knows fp32, fp16, int8");
        return info;
    }

    ModelInfo assume(const Preprocess& preprocess, unsigned bits) const {
        const auto outputs = session_.outputs();
        const Tensor* logits = find(outputs, "logits");
        if (!bits && logits && logits->shape.size() == 2 && logits->shape[1] > 0 && logits->shape[1] <= max_bits)
            bits = static_cast<unsigned>(logits->shape[1]);
        if (!bits) fail("its outputs do not declare the code length; pass EncoderOptions::bits");
        return {bits, preprocess, {}, "{}", "{}", "unknown"};
    }

    void check_signature(const ModelInfo& info) const {
        const auto inputs = session_.inputs(), outputs = session_.outputs();
        const Tensor *image = find(inputs, "image"), *codes = find(outputs, "codes"), *logits = find(outputs, "logits");
        if (inputs.size() != 1 || !image || !codes || !logits)
            fail("its outputs are not packed codes: expected the input image and the outputs codes and logits, not [" +
                 list(inputs) + "] and [" + list(outputs) + "]");
        const std::int64_t side = info.preprocess.crop();
        check(*image, "uint8", {side, side, 3});
        check(*codes, "uint8", {(info.bits + 7) / 8});
        check(*logits, "float", {info.bits});
    }

private:
    [[noreturn]] void fail(const std::string& problem, const std::string& found = {},
                           const std::string& expected = {}) const {
        throw Error(ErrorCode::corrupt, {.path = name_, .problem = problem, .found = found, .expected = expected});
    }

    void fixed(const char* key, const char* expected) const {
        const auto value = session_.metadata(key);
        if (!value || *value != expected)
            fail(key, value ? "'" + *value + "'" : "nothing", "'" + std::string(expected) + "'");
    }

    unsigned bits() const {
        const std::string text = session_.metadata("idcwh_bits").value_or("");
        const bool digits = !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == text.npos;
        const unsigned long value = digits ? std::stoul(text) : 0;
        if (value < 1 || value > max_bits)
            fail("idcwh_bits", "'" + text + "'", "a whole number from 1 to " + std::to_string(max_bits));
        return static_cast<unsigned>(value);
    }

    Preprocess preprocess() const {
        json_of("idcwh_preprocess", Kind::object);
        try {
            return Preprocess::from_json(session_.metadata("idcwh_preprocess").value_or(""));
        } catch (const Error& error) {
            fail(std::string("idcwh_preprocess: ") + error.what());
        }
    }

    std::string object(const char* key) const {
        json_of(key, Kind::object);
        return session_.metadata(key).value_or("{}");
    }

    json::Value json_of(const char* key, Kind kind) const {
        json::Value value, expected;
        expected.kind = kind;
        try {
            value = json::parse(session_.metadata(key).value_or(""));
        } catch (const Error&) {
            fail(std::string(key) + " is missing or not JSON; export the model again");
        }
        if (value.kind != kind) fail(key, value.kind_name(), expected.kind_name());
        return value;
    }

    static const Tensor* find(const std::vector<Tensor>& tensors, const char* name) {
        const auto found =
            std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
        return found == tensors.end() ? nullptr : &*found;
    }

    static std::string list(const std::vector<Tensor>& tensors) {
        std::string text;
        for (const auto& tensor : tensors) text += (text.empty() ? "" : ", ") + tensor.name;
        return text;
    }

    static std::string shape(const std::vector<std::int64_t>& sizes) {
        std::string text;
        for (const auto size : sizes) text += (text.empty() ? "" : ", ") + (size < 0 ? "n" : std::to_string(size));
        return "[" + text + "]";
    }

    void check(const Tensor& tensor, const char* type, std::vector<std::int64_t> expected) const {
        expected.insert(expected.begin(), -1);
        const bool fits = tensor.shape.size() == expected.size() &&
                          std::equal(expected.begin() + 1, expected.end(), tensor.shape.begin() + 1);
        if (tensor.type != type || !fits)
            fail(tensor.name, tensor.type + " " + shape(tensor.shape), std::string(type) + " " + shape(expected));
        if (tensor.shape[0] >= 0)
            fail(tensor.name, std::to_string(tensor.shape[0]) + " images per batch", "any number");
    }

    const Session& session_;
    const std::string& name_;
};

}  // namespace

ModelInfo read_model_info(const Session& session, const std::string& name) {
    const Reader reader(session, name);
    ModelInfo info = reader.read();
    reader.check_signature(info);
    return info;
}

ModelInfo explicit_model_info(const Session& session, const std::string& name, const EncoderOptions& options) {
    const Reader reader(session, name);
    ModelInfo info = reader.assume(options.preprocess.value_or(Preprocess()), options.bits);
    reader.check_signature(info);
    return info;
}

}  // namespace idcwh
