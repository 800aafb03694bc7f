// The C API of the library idcwh_encoder: preprocessing and encoding.
#include <idcwh/idcwh_encoder.h>
#include <idcwh/encoder.hpp>

#include <optional>

#include "c_api/c_api.hpp"

struct idcwh_preprocess {
    idcwh::Preprocess cpp;
};

struct idcwh_encoder {
    idcwh::Encoder cpp;
    idcwh_preprocess preprocess;
};

using namespace idcwh::c_api;

namespace {

static_assert(IDCWH_DEVICE_AUTO == static_cast<int>(idcwh::Device::automatic) &&
              IDCWH_DEVICE_CPU == static_cast<int>(idcwh::Device::cpu) &&
              IDCWH_DEVICE_CUDA == static_cast<int>(idcwh::Device::cuda));

idcwh::Image image_of(const idcwh_image& image) { return {image.data, image.width, image.height, image.stride}; }

// Calls make() and stores the handle. The handle is null after an error.
template <class Handle, class Make>
int made(Handle** out, const char* name, Make make) noexcept {
    return guarded([&] {
        expected(out, name) = nullptr;
        *out = make();
    });
}

}  // namespace

int idcwh_preprocess_create(unsigned resize, unsigned crop, const char* interpolation, idcwh_preprocess** preprocess) {
    return made(preprocess, "preprocess", [&] {
        const std::string name = interpolation ? interpolation : "bilinear";
        return new idcwh_preprocess{idcwh::Preprocess(resize, crop, idcwh::interpolation_of(name))};
    });
}

int idcwh_preprocess_from_json(const char* json, idcwh_preprocess** preprocess) {
    return made(preprocess, "preprocess",
                [&] { return new idcwh_preprocess{idcwh::Preprocess::from_json(&expected(json, "json"))}; });
}

void idcwh_preprocess_free(idcwh_preprocess* preprocess) { delete preprocess; }

unsigned idcwh_preprocess_crop(const idcwh_preprocess* preprocess) { return preprocess->cpp.crop(); }

int idcwh_preprocess_to_json(const idcwh_preprocess* preprocess, char* text, size_t capacity, size_t* length) {
    return guarded([&] { put_text(expected(preprocess, "preprocess").cpp.to_json(), text, capacity, length); });
}

int idcwh_preprocess_run(const idcwh_preprocess* preprocess, const idcwh_image* image, uint8_t* pixels) {
    return guarded([&] { expected(preprocess, "preprocess").cpp(image_of(expected(image, "image")), pixels); });
}

int idcwh_encoder_open(const char* path, const idcwh_encoder_options* options, idcwh_encoder** encoder) {
    return made(encoder, "encoder", [&] {
        idcwh::EncoderOptions converted;
        if (options) {
            if (options->library) converted.library = options->library;
            converted.device = kind_of(options->device, idcwh::Device::cuda, "device");
            converted.threads = options->threads;
            converted.batch_size = options->batch_size;
            converted.spin = options->spin != 0;
            converted.gpu = options->gpu;
            converted.gpu_memory = options->gpu_memory;
            if (options->preprocess) converted.preprocess = options->preprocess->cpp;
            converted.bits = options->bits;
        }
        idcwh::Encoder loaded(&expected(path, "path"), converted);
        const idcwh_preprocess preprocess{loaded.preprocess()};
        return new idcwh_encoder{std::move(loaded), preprocess};
    });
}

void idcwh_encoder_free(idcwh_encoder* encoder) { delete encoder; }

unsigned idcwh_encoder_bits(const idcwh_encoder* encoder) { return encoder->cpp.bits(); }
int idcwh_encoder_device(const idcwh_encoder* encoder) { return static_cast<int>(encoder->cpp.device()); }
const char* idcwh_encoder_fingerprint(const idcwh_encoder* encoder) { return encoder->cpp.fingerprint().c_str(); }
const char* idcwh_encoder_why(const idcwh_encoder* encoder) { return encoder->cpp.why().c_str(); }
const char* idcwh_encoder_runtime(const idcwh_encoder* encoder) { return encoder->cpp.runtime().c_str(); }
const idcwh_preprocess* idcwh_encoder_preprocess(const idcwh_encoder* encoder) { return &encoder->preprocess; }

int idcwh_encoder_metadata(const idcwh_encoder* encoder, const char* key, char* text, size_t capacity, size_t* length) {
    return guarded([&] {
        const auto value = expected(encoder, "encoder").cpp.metadata(&expected(key, "key"));
        if (!value)
            throw idcwh::Error(
                idcwh::ErrorCode::not_found,
                {.path = encoder->cpp.path(), .problem = std::string("metadata ") + key + " is missing"});
        put_text(*value, text, capacity, length);
    });
}

int idcwh_encoder_encode(const idcwh_encoder* encoder, const uint8_t* pixels, size_t n, uint8_t* codes, float* logits) {
    return guarded([&] { expected(encoder, "encoder").cpp.encode(pixels, n, codes, logits); });
}

int idcwh_encoder_encode_images(const idcwh_encoder* encoder, const idcwh_image* images, size_t n, uint8_t* codes,
                                float* logits) {
    return guarded([&] {
        const auto& model = expected(encoder, "encoder").cpp;
        if (n) expected(images, "images");
        std::vector<idcwh::Image> views;
        for (size_t i = 0; i < n; ++i) views.push_back(image_of(images[i]));
        model.encode(views.data(), n, codes, logits);
    });
}

int idcwh_encoder_manifest(const idcwh_encoder* encoder, const char* database, const char* images, char* text,
                           size_t capacity, size_t* length) {
    return guarded([&] {
        const auto& model = expected(encoder, "encoder").cpp;
        put_text(model.manifest(&expected(database, "database"), images ? images : ""), text, capacity, length);
    });
}

int idcwh_encoder_check_manifest(const idcwh_encoder* encoder, const char* manifest) {
    return guarded([&] { expected(encoder, "encoder").cpp.check_manifest(&expected(manifest, "manifest")); });
}
