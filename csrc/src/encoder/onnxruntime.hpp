// ONNX Runtime's C interface, loaded at run time. Its header is in csrc/third_party.
#pragma once

#define ORT_API_MANUAL_INIT  // nothing of it is linked
#include <onnxruntime_c_api.h>

#include <idcwh/error.hpp>

#include <memory>
#include <string>

namespace idcwh::ort {

// The newest function that is used here came with 1.11, and a runtime serves all older versions of its interface.
constexpr std::uint32_t api_version = 11;
static_assert(api_version <= ORT_API_VERSION);

class Api {
public:
    // From the library of this path or name; it stays loaded. Error(unsupported) says what was tried.
    explicit Api(const std::string& library);
    const OrtApi* operator->() const { return api_; }
    const std::string& version() const { return version_; }
    // Throws what a failed call says, in one line, behind `what`.
    void check(OrtStatus* status, ErrorCode code, const std::string& what) const;
    // The same as text; "" for a call that did not fail.
    std::string message(OrtStatus* status) const;

private:
    const OrtApi* api_ = nullptr;
    std::string version_;
};

// An object that a function of the interface frees.
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
