// The C API of preprocessing and encoding. It mirrors preprocess.hpp and encoder.hpp, which describe each function in
// more detail, as does docs/cpp.md.
//
// The conventions of idcwh.h for errors, memory and handles apply here. Preprocessors and encoders are thread-safe.
//
// Library: idcwh_encoder, which requires the library idcwh (-lidcwh_encoder -lidcwh).
#pragma once

#include "idcwh.h"

#ifdef __cplusplus
extern "C" {
#endif

// A view of a decoded image in the caller's memory: `height` rows of `width` pixels, each of the bytes red, green,
// blue.
typedef struct idcwh_image {
    const uint8_t* data;  // first byte of the top row
    size_t width, height;
    ptrdiff_t stride;  // bytes from one row to the row below, negative if stored bottom-up; 0: 3 * width
} idcwh_image;

// ---- Images to pixels, byte for byte as in Python (Pillow) ----

typedef struct idcwh_preprocess idcwh_preprocess;

// Creates a preprocessor. interpolation is "bilinear", "bicubic", "lanczos" or "box"; null means "bilinear".
// 1 <= crop <= resize <= 8192.
IDCWH_API int idcwh_preprocess_create(unsigned resize, unsigned crop, const char* interpolation,
                                      idcwh_preprocess** preprocess);
// Creates one from the JSON object that models and databases contain:
//     {"resize": 240, "crop": 224, "interpolation": "bilinear"}
IDCWH_API int idcwh_preprocess_from_json(const char* json, idcwh_preprocess** preprocess);
IDCWH_API void idcwh_preprocess_free(idcwh_preprocess* preprocess);
IDCWH_API unsigned idcwh_preprocess_crop(const idcwh_preprocess* preprocess);
// Writes that JSON object. text, capacity and length are as in idcwh_snapshot_explain_topk.
IDCWH_API int idcwh_preprocess_to_json(const idcwh_preprocess* preprocess, char* text, size_t capacity, size_t* length);
// Writes the pixels of an image, uint8 [crop][crop][3].
IDCWH_API int idcwh_preprocess_run(const idcwh_preprocess* preprocess, const idcwh_image* image, uint8_t* pixels);

// ---- Images to codes ----

typedef struct idcwh_encoder idcwh_encoder;

enum {
    IDCWH_DEVICE_AUTO = 0,  // a GPU if one is available
    IDCWH_DEVICE_CPU = 1,
    IDCWH_DEVICE_CUDA = 2,
};
typedef struct idcwh_encoder_options {
    const char* library;  // shared library of ONNX Runtime; null: IDCWH_ONNXRUNTIME, else the system's
    int device;           // IDCWH_DEVICE_...
    unsigned threads;     // per inference run on the CPU; 0: all cores that the process may use
    unsigned batch_size;  // largest number of images per inference run; 0: 8 on the CPU, 64 on a GPU
    int spin;             // nonzero: idle threads spin
    unsigned gpu;         // number of the GPU
    size_t gpu_memory;    // largest size of activations on the GPU in bytes; 0: no limit
    // Override the metadata, for files without metadata or changed after export. If preprocess is null, the metadata
    // applies. bits: code length; 0: one bit per logit.
    const idcwh_preprocess* preprocess;
    unsigned bits;
} idcwh_encoder_options;

// Loads a model. Errors are as in the constructor of Encoder (encoder.hpp).
IDCWH_API int idcwh_encoder_open(const char* path, const idcwh_encoder_options* options, idcwh_encoder** encoder);
IDCWH_API void idcwh_encoder_free(idcwh_encoder* encoder);
IDCWH_API unsigned idcwh_encoder_bits(const idcwh_encoder* encoder);
IDCWH_API int idcwh_encoder_device(const idcwh_encoder* encoder);  // IDCWH_DEVICE_CPU or IDCWH_DEVICE_CUDA
// Return strings that are valid as long as the encoder.
IDCWH_API const char* idcwh_encoder_fingerprint(const idcwh_encoder* encoder);  // SHA-256 of the file
IDCWH_API const char* idcwh_encoder_why(const idcwh_encoder* encoder);          // reason for the choice of the device
IDCWH_API const char* idcwh_encoder_runtime(const idcwh_encoder* encoder);      // version of ONNX Runtime
// Returns the preprocessor of the encoder. It is valid as long as the encoder and must not be freed.
IDCWH_API const idcwh_preprocess* idcwh_encoder_preprocess(const idcwh_encoder* encoder);
// Writes an entry of the model's metadata, such as "idcwh_method". Returns IDCWH_NOT_FOUND for a key that is missing.
IDCWH_API int idcwh_encoder_metadata(const idcwh_encoder* encoder, const char* key, char* text, size_t capacity,
                                     size_t* length);

// Encodes n images that idcwh_preprocess_run has written, uint8 [n][crop][crop][3]. Writes codes [n][(bits + 7) / 8]
// and, unless `logits` is null, logits [n][bits].
IDCWH_API int idcwh_encoder_encode(const idcwh_encoder* encoder, const uint8_t* pixels, size_t n, uint8_t* codes,
                                   float* logits);
// Preprocesses and encodes n images of any size.
IDCWH_API int idcwh_encoder_encode_images(const idcwh_encoder* encoder, const idcwh_image* images, size_t n,
                                          uint8_t* codes, float* logits);

// Writes the manifest of a new database, for idcwh_database_create. `images`, which may be null, is the folder to which
// keys are relative.
IDCWH_API int idcwh_encoder_manifest(const idcwh_encoder* encoder, const char* database, const char* images, char* text,
                                     size_t capacity, size_t* length);
// Returns IDCWH_INVALID_ARGUMENT, with both fingerprints in the message, unless the manifest contains this model.
IDCWH_API int idcwh_encoder_check_manifest(const idcwh_encoder* encoder, const char* manifest);

#ifdef __cplusplus
}
#endif
