#include "encoder/onnxruntime.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace idcwh::ort {
namespace {

constexpr const char* variable = "IDCWH_ONNXRUNTIME";

[[noreturn]] void fail_unsupported(const std::string& message) { throw Error(ErrorCode::unsupported, message); }

using GetBase = const OrtApiBase*(ORT_API_CALL*)();

GetBase load(const std::string& library) {
    const char* wish = std::getenv(variable);
    std::vector<std::string> names;
    if (!library.empty())
        names = {library};
    else if (wish && *wish)
        names = {wish};
    else
        names = {"libonnxruntime.so.1", "libonnxruntime.so"};
    std::string first;
    for (const auto& name : names) {
        // never closed, because its threads may outlive this object
        void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
            if (first.empty()) first = dlerror();
            continue;
        }
        if (void* symbol = dlsym(handle, "OrtGetApiBase")) return reinterpret_cast<GetBase>(symbol);
        fail_unsupported(name + " is not ONNX Runtime: it has no OrtGetApiBase");
    }
    fail_unsupported("ONNX Runtime's shared library does not load (" + first + "); set EncoderOptions::library or " +
                     variable +
                     "; that of the Python package onnxruntime serves (onnxruntime/capi/libonnxruntime.so.*)");
}

}  // namespace

Api::Api(const std::string& library) {
    const OrtApiBase* base = load(library)();
    version_ = base->GetVersionString();
    api_ = base->GetApi(api_version);
    if (!api_) fail_unsupported("ONNX Runtime " + version_ + " is too old: version 1.11 or later was expected");
}

std::string Api::message(OrtStatus* status) const {
    if (!status) return "";
    std::string text;
    for (const char* c = api_->GetErrorMessage(status); *c; ++c) {
        const bool blank = *c == '\n' || *c == ' ' || *c == '\t' || *c == '\r';
        if (!blank)
            text += *c;
        else if (!text.empty() && text.back() != ' ')
            text += ' ';
    }
    api_->ReleaseStatus(status);
    return text.empty() ? "no reason was given" : text;
}

void Api::check(OrtStatus* status, ErrorCode code, const std::string& what) const {
    if (status) throw Error(code, what + " (" + message(status) + ")");
}

}  // namespace idcwh::ort
