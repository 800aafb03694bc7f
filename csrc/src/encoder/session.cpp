// One session, opened as by encoder/ort.py: without messages, without spinning threads and with exact float32 on CUDA.
#include "encoder/session.hpp"

#include "encoder/onnxruntime.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

namespace idcwh {
namespace {

using ort::Api;
using ort::Owned;

constexpr const char* cuda_provider = "CUDAExecutionProvider";
// A line of the model's metadata as it is stored in the file. It is needed before a session exists.
constexpr std::string_view int8_line = "\x0a\x0fidcwh_precision\x12\x04int8";
constexpr int silent = ORT_LOGGING_LEVEL_FATAL;  // errors arrive as a status and are reported in one line

// Returns the reason why this ONNX Runtime cannot use a GPU, or "". Does not load the CUDA libraries.
std::string cuda_obstacle(const Api& api) {
    char** providers = nullptr;
    int count = 0;
    api.check(api->GetAvailableProviders(&providers, &count), ErrorCode::unsupported, "ONNX Runtime has no providers");
    const bool built =
        std::any_of(providers, providers + count, [](const char* name) { return !std::strcmp(name, cuda_provider); });
    static_cast<void>(api.message(api->ReleaseAvailableProviders(providers, count)));
    if (!built) return "this ONNX Runtime " + api.version() + " was built without CUDA";
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) return "no GPU found: the NVIDIA driver is not installed, or not visible in this container";
    const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    const auto devices = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
    int found = 0;
    int status = init && devices ? init(0) : -1;
    if (!status) status = devices(&found);
    if (status || !found) return "the NVIDIA driver finds no GPU (status " + std::to_string(status) + ")";
    return "";
}

// Adds CUDA to the options. Returns "", or the reason why it cannot be added.
std::string add_cuda(const Api& api, OrtSessionOptions* options, const EncoderOptions& wanted) {
    Owned<OrtCUDAProviderOptionsV2> cuda(api->ReleaseCUDAProviderOptions);
    if (auto why = api.message(api->CreateCUDAProviderOptions(cuda.out())); !why.empty()) return why;
    const std::string index = std::to_string(wanted.gpu), limit = std::to_string(wanted.gpu_memory);
    const char* names[] = {"device_id", "use_tf32", "cudnn_conv_algo_search", "arena_extend_strategy", "gpu_mem_limit"};
    const char* values[] = {index.c_str(), "0", "HEURISTIC", "kSameAsRequested", limit.c_str()};
    const std::size_t count = wanted.gpu_memory ? 5 : 4;
    if (auto why = api.message(api->UpdateCUDAProviderOptions(cuda.get(), names, values, count)); !why.empty())
        return why;
    return api.message(api->SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda.get()));
}

}  // namespace

struct Session::Parts {
    explicit Parts(const std::string& library)
        : api(library), env(api->ReleaseEnv), memory(api->ReleaseMemoryInfo), session(api->ReleaseSession) {}

    // Opens `model`. Returns "", or the reason why it cannot be opened.
    std::string open(std::string_view model, const EncoderOptions& wanted, bool cuda) {
        Owned<OrtSessionOptions> options(api->ReleaseSessionOptions);
        const auto set = [&](OrtStatus* status) {
            api.check(status, ErrorCode::unsupported, "ONNX Runtime refuses an option");
        };
        set(api->CreateSessionOptions(options.out()));
        set(api->SetSessionLogSeverityLevel(options.get(), silent));
        set(api->SetIntraOpNumThreads(options.get(), static_cast<int>(wanted.threads)));
        set(api->SetInterOpNumThreads(options.get(), 1));
        set(api->AddSessionConfigEntry(options.get(), "session.intra_op.allow_spinning", wanted.spin ? "1" : "0"));
        if (cuda)
            if (auto obstacle = add_cuda(api, options.get(), wanted); !obstacle.empty()) return obstacle;
        return api.message(
            api->CreateSessionFromArray(env.get(), model.data(), model.size(), options.get(), session.out()));
    }

    std::vector<Tensor> tensors(bool input) const;

    Api api;
    Owned<OrtEnv> env;
    Owned<OrtMemoryInfo> memory;
    Owned<OrtSession> session;
    Device device = Device::cpu;
    std::string why = "requested";
};

Session::Session(std::string_view model, const std::string& name, const EncoderOptions& options)
    : parts_(std::make_unique<Parts>(options.library)) {
    Parts& p = *parts_;
    const auto check = [&](OrtStatus* status) {
        p.api.check(status, ErrorCode::unsupported, "ONNX Runtime does not start");
    };
    check(p.api->CreateEnv(static_cast<OrtLoggingLevel>(silent), "idcwh", p.env.out()));
    check(p.api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, p.memory.out()));
    if (options.device != Device::cpu) {
        p.why = cuda_obstacle(p.api);
        if (p.why.empty() && model.find(int8_line) != model.npos)
            p.why = "an int8 model is for the CPU: on CUDA it would be slower than in fp32 and give other codes";
        if (p.why.empty()) {
            p.why = p.open(model, options, true);
            if (p.why.empty()) {
                p.device = Device::cuda;
                p.why = options.device == Device::cuda ? "requested" : "a GPU is available";
                return;
            }
            p.why = "CUDA could not be started: " + p.why;
        }
    }
    // Opens the CPU session for cuda too: a fault of the model itself is then reported first.
    const std::string fault = p.open(model, options, false);
    if (!fault.empty() && model.substr(0, 4) == "PK\3\4" && model.find("data.pkl") != model.npos)
        throw Error(ErrorCode::corrupt, {.path = name,
                                         .problem = "is not an ONNX model",
                                         .found = "a PyTorch file",
                                         .expected = "a model.onnx",
                                         .hint = "run idcwh-export " + name + " --onnx"});
    if (!fault.empty())
        throw Error(ErrorCode::corrupt,
                    {.path = name,
                     .problem = "is not an ONNX model that ONNX Runtime " + p.api.version() + " can run",
                     .found = fault});
    if (options.device == Device::cuda)
        throw Error(ErrorCode::unsupported,
                    {.path = "device cuda", .problem = "cannot be used: " + p.why, .hint = "choose cpu or automatic"});
}

std::optional<std::string> Session::metadata(const std::string& key) const {
    const Api& api = parts_->api;
    const auto check = [&](OrtStatus* status) { api.check(status, ErrorCode::corrupt, "its metadata cannot be read"); };
    Owned<OrtModelMetadata> metadata(api->ReleaseModelMetadata);
    check(api->SessionGetModelMetadata(parts_->session.get(), metadata.out()));
    OrtAllocator* allocator = nullptr;
    check(api->GetAllocatorWithDefaultOptions(&allocator));
    char* value = nullptr;
    check(api->ModelMetadataLookupCustomMetadataMap(metadata.get(), allocator, key.c_str(), &value));
    if (!value) return std::nullopt;
    std::string text = value;
    allocator->Free(allocator, value);
    return text;
}

std::vector<Tensor> Session::Parts::tensors(bool input) const {
    const auto check = [&](OrtStatus* status) {
        api.check(status, ErrorCode::corrupt, "its inputs and outputs cannot be read");
    };
    const OrtSession* of = session.get();
    OrtAllocator* allocator = nullptr;
    check(api->GetAllocatorWithDefaultOptions(&allocator));
    std::size_t count = 0;
    check(input ? api->SessionGetInputCount(of, &count) : api->SessionGetOutputCount(of, &count));
    std::vector<Tensor> found(count);
    for (std::size_t i = 0; i < count; ++i) {
        Tensor& tensor = found[i];
        char* name = nullptr;
        check(input ? api->SessionGetInputName(of, i, allocator, &name)
                    : api->SessionGetOutputName(of, i, allocator, &name));
        tensor.name = name;
        allocator->Free(allocator, name);
        Owned<OrtTypeInfo> type(api->ReleaseTypeInfo);
        check(input ? api->SessionGetInputTypeInfo(of, i, type.out())
                    : api->SessionGetOutputTypeInfo(of, i, type.out()));
        const OrtTensorTypeAndShapeInfo* info = nullptr;  // belongs to `type`
        check(api->CastTypeInfoToTensorInfo(type.get(), &info));
        tensor.type = "unknown type";
        if (!info) continue;
        ONNXTensorElementDataType element{};
        check(api->GetTensorElementType(info, &element));
        if (element == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8) tensor.type = "uint8";
        if (element == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) tensor.type = "float";
        std::size_t rank = 0;
        check(api->GetDimensionsCount(info, &rank));
        tensor.shape.resize(rank);
        check(api->GetDimensions(info, tensor.shape.data(), rank));
    }
    return found;
}

void Session::run(const Batch& batch) const {
    const Api& api = parts_->api;
    const auto check = [&](OrtStatus* status) {
        api.check(status, ErrorCode::unsupported, "ONNX Runtime cannot run the model");
    };
    // The model reads and writes the caller's memory. ONNX Runtime does not change its input.
    const auto wrap = [&](void* data, std::size_t bytes, std::initializer_list<std::int64_t> shape,
                          ONNXTensorElementDataType type, OrtValue** out) {
        check(api->CreateTensorWithDataAsOrtValue(parts_->memory.get(), data, bytes, shape.begin(), shape.size(), type,
                                                  out));
    };
    Owned<OrtValue> image(api->ReleaseValue), codes(api->ReleaseValue), logits(api->ReleaseValue);
    const auto n = static_cast<std::size_t>(batch.n);
    wrap(const_cast<std::uint8_t*>(batch.image), n * static_cast<std::size_t>(3 * batch.side * batch.side),
         {batch.n, batch.side, batch.side, 3}, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, image.out());
    wrap(batch.codes, n * static_cast<std::size_t>(batch.code_bytes), {batch.n, batch.code_bytes},
         ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, codes.out());
    if (batch.logits)
        wrap(batch.logits, n * static_cast<std::size_t>(batch.bits) * sizeof(float), {batch.n, batch.bits},
             ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, logits.out());
    const char* inputs[] = {"image"};
    const char* outputs[] = {"codes", "logits"};
    const OrtValue* in[] = {image.get()};
    OrtValue* out[] = {codes.get(), logits.get()};
    check(api->Run(parts_->session.get(), nullptr, inputs, in, 1, outputs, batch.logits ? 2 : 1, out));
}

Device Session::device() const { return parts_->device; }
const std::string& Session::why() const { return parts_->why; }
const std::string& Session::runtime() const { return parts_->api.version(); }
std::vector<Tensor> Session::inputs() const { return parts_->tensors(true); }
std::vector<Tensor> Session::outputs() const { return parts_->tensors(false); }

Session::~Session() = default;

}  // namespace idcwh
