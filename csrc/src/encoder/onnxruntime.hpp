// ONNX Runtime's C interface, loaded at run time. Its header is in csrc/third_party.
#pragma once

#define ORT_API_MANUAL_INIT  // nothing is linked
#include <onnxruntime_c_api.h>

#include <idcwh/error.hpp>

#include <memory>
#include <string>

namespace idcwh::ort {

// Version 1.11 introduced the newest function used here. A runtime serves all older versions of its interface.
constexpr std::uint32_t api_version = 11;
static_assert(api_version <= ORT_API_VERSION);

class Api {
public:
    // Loads the library of this path or name and never unloads it. Throws Error(unsupported) with the names it tried.
    explicit Api(const std::string& library);
    const OrtApi* operator->() const { return api_; }
    const std::string& version() const { return version_; }
    // Throws Error with the message of a failed call, in one line, after `what`.
    void check(OrtStatus* status, ErrorCode code, const std::string& what) const;
    // Returns the message of a failed call, else "".
    std::string message(OrtStatus* status) const;

private:
    const OrtApi* api_ = nullptr;
    std::string version_;
};

// An object that the interface frees by a function of its own.
template <class T>
class Owned {
public:
    explicit Owned(void(ORT_API_CALL* release)(T*)) : release_(release) {}
    ~Owned() {
        if (object_) release_(object_);
    }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    T* get() const { return object_; }
    T** out() { return &object_; }

private:
    void(ORT_API_CALL* release_)(T*);
    T* object_ = nullptr;
};

}  // namespace idcwh::ort
