// The model's record in the manifest of a database, written and compared as by database/provenance.py.
#include "base/json.hpp"
#include "encoder/encoder_impl.hpp"

#include <filesystem>

#include "base/fail.hpp"

namespace idcwh {
namespace {

namespace fs = std::filesystem;

// Returns a path as JSON, relative to the database and absolute. One of them survives a move of both files or of the
// database alone.
std::string place(const std::string& path, const std::string& database) {
    std::error_code ignored;
    const fs::path absolute = fs::weakly_canonical(fs::absolute(path), ignored);
    const fs::path folder = fs::weakly_canonical(fs::absolute(database), ignored).parent_path();
    return "\"path\": " + json::quoted(absolute.lexically_relative(folder).string()) +
           ", \"absolute\": " + json::quoted(absolute.string());
}

// Returns the preprocessing in a manifest, spelled like Preprocess::to_json. Empty if the manifest has none.
std::string preprocess_of(const json::Value& model) {
    const json::Value* preprocess = model.find("preprocess");
    if (!preprocess || preprocess->kind != json::Value::Kind::object) return {};
    const auto text = [&](const char* name) {
        const json::Value* value = preprocess->find(name);
        return value ? value->text : std::string();
    };
    return "{\"resize\": " + text("resize") + ", \"crop\": " + text("crop") +
           ", \"interpolation\": " + json::quoted(text("interpolation")) + "}";
}

}  // namespace

std::string Encoder::manifest(const std::string& database_path, const std::string& images) const {
    const ModelInfo& info = parts_->info;
    std::string text = "{\"model\": {\"sha256\": " + json::quoted(fingerprint()) +
                       ", \"bits\": " + std::to_string(bits()) + ", \"method\": " + info.method +
                       ", \"backbone\": " + info.backbone + ", \"preprocess\": " + preprocess().to_json() +
                       ", \"precision\": " + json::quoted(info.precision) + ", " + place(path(), database_path) + "}";
    if (!images.empty()) text += ", \"images\": {" + place(images, database_path) + "}";
    return text + "}";
}

void Encoder::check_manifest(std::string_view manifest) const {
    std::string found, pixels, width;
    try {
        const json::Value read = json::parse(manifest);
        const json::Value* model = read.find("model");
        const json::Value* sha256 = model ? model->find("sha256") : nullptr;
        if (sha256 && sha256->kind == json::Value::Kind::string) found = sha256->text;
        if (model) pixels = preprocess_of(*model);
        const json::Value* said_bits = model ? model->find("bits") : nullptr;
        if (said_bits) width = said_bits->text;
    } catch (const Error& error) {
        fail("the manifest of the database is " + std::string(error.what()));
    }
    // The same file may be used with other preprocessing, because EncoderOptions override its metadata.
    if (found == fingerprint() && !pixels.empty() && pixels != preprocess().to_json())
        fail({.path = path(),
              .problem = "its preprocessing does not match that of the codes in the database",
              .found = preprocess().to_json(),
              .expected = pixels,
              .hint = "leave EncoderOptions::preprocess out, or build the database again"});
    if (found == fingerprint() && !width.empty() && width != std::to_string(bits()))
        fail({.path = path(),
              .problem = "its code length does not match that of the codes in the database",
              .found = std::to_string(bits()) + " bits",
              .expected = width,
              .hint = "leave EncoderOptions::bits out, or build the database again"});
    if (found == fingerprint()) return;
    fail({.path = path(),
          .problem = "its fingerprint does not match the model that made the codes in the database",
          .found = fingerprint(),
          .expected = found.empty() ? "no model" : found,
          .hint = "use the model that made them, or build the database again"});
}

}  // namespace idcwh
