// preprocess.hpp and encoder.hpp from C, and from whatever can call C; those headers, and docs/cpp.md, say more about
// each. In the library idcwh_encoder, which needs the library idcwh (-lidcwh_encoder -lidcwh).
//
// Failure, memory and handles are as idcwh.h says: a status, and idcwh_last_error() on the same thread.
#pragma once

#include "idcwh.h"

#ifdef __cplusplus
extern "C" {
#endif

// A decoded image in the caller's memory: height rows of width pixels, a pixel is the bytes red, green, blue.
typedef struct idcwh_image {
    const uint8_t* data;  // the first byte of the upper row
    size_t width, height;
    ptrdiff_t stride;  // bytes from a row to the one below; 0: 3 * width
} idcwh_image;

// ---- Images to pixels, the bytes of Python and Pillow
// ---------------------------------------------------------------

typedef struct idcwh_preprocess idcwh_preprocess;

// interpolation: "bilinear", "bicubic", "lanczos" or "box"; null: "bilinear". 1 <= crop <= resize <= 8192.
IDCWH_API int idcwh_preprocess_create(unsigned resize, unsigned crop, const char* interpolation,
                                      idcwh_preprocess** preprocess);
// The dictionary that models and databases carry, {"resize": 240, "crop": 224, "interpolation": "bilinear"}.
IDCWH_API int idcwh_preprocess_from_json(const char* json, idcwh_preprocess** preprocess);
IDCWH_API void idcwh_preprocess_free(idcwh_preprocess* preprocess);
IDCWH_API unsigned idcwh_preprocess_crop(const idcwh_preprocess* preprocess);
// That dictionary; text, capacity and length as in idcwh_snapshot_explain_topk.
IDCWH_API int idcwh_preprocess_to_json(const idcwh_preprocess* preprocess, char* text, size_t capacity, size_t* length);
// Writes uint8 [crop][crop][3]. Any number of threads at the same time.
IDCWH_API int idcwh_preprocess_run(const idcwh_preprocess* preprocess, const idcwh_image* image, uint8_t* pixels);

// ---- Images to codes
// ------------------------------------------------------------------------------------------------

typedef struct idcwh_encoder idcwh_encoder;

enum {
    IDCWH_DEVICE_AUTO = 0,  // a GPU where one can be had
    IDCWH_DEVICE_CPU = 1,
    IDCWH_DEVICE_CUDA = 2,
};
typedef struct idcwh_encoder_options {
    const char* library;  // ONNX Runtime's shared library; null: IDCWH_ONNXRUNTIME, else where the system finds one
    int device;
    unsigned threads;     // of one run; 0: as many cores as the process may use
    unsigned batch_size;  // images a run at most; 0: the encoder's choice
    int spin;             // not zero: threads wait for work spinning
    unsigned gpu;         // which one
    size_t gpu_memory;    // bytes that activations may take there; 0: no limit
    // For a file without metadata, or one that was changed: what it expects, and bits of a code (0: as many as there
    // are logits). Null: what its metadata says.
    const idcwh_preprocess* preprocess;
    unsigned bits;
} idcwh_encoder_options;

IDCWH_API int idcwh_encoder_open(const char* path, const idcwh_encoder_options* options, idcwh_encoder** encoder);
IDCWH_API void idcwh_encoder_free(idcwh_encoder* encoder);
IDCWH_API unsigned idcwh_encoder_bits(const idcwh_encoder* encoder);
IDCWH_API int idcwh_encoder_device(const idcwh_encoder* encoder);  // IDCWH_DEVICE_CPU or _CUDA
// Texts, as long as the encoder lives: SHA-256 of the file; why that device; the version of ONNX Runtime.
IDCWH_API const char* idcwh_encoder_fingerprint(const idcwh_encoder* encoder);
IDCWH_API const char* idcwh_encoder_why(const idcwh_encoder* encoder);
IDCWH_API const char* idcwh_encoder_runtime(const idcwh_encoder* encoder);
// The encoder's own, as long as it lives; not to be freed.
IDCWH_API const idcwh_preprocess* idcwh_encoder_preprocess(const idcwh_encoder* encoder);
// The model's metadata, "idcwh_method", ...; IDCWH_NOT_FOUND where it has no such key.
IDCWH_API int idcwh_encoder_metadata(const idcwh_encoder* encoder, const char* key, char* text, size_t capacity,
                                     size_t* length);

// n images that went through idcwh_preprocess_run, uint8 [n][crop][crop][3], to codes [n][(bits + 7) / 8] and, where
// it is not null, logits [n][bits]. Any number of threads at the same time.
IDCWH_API int idcwh_encoder_encode(const idcwh_encoder* encoder, const uint8_t* pixels, size_t n, uint8_t* codes,
                                   float* logits);
// Images of any size.
IDCWH_API int idcwh_encoder_encode_images(const idcwh_encoder* encoder, const idcwh_image* images, size_t n,
                                          uint8_t* codes, float* logits);

// What a new database says of its model, for idcwh_database_create; images (may be null): the folder that keys are
// relative to.
IDCWH_API int idcwh_encoder_manifest(const idcwh_encoder* encoder, const char* database, const char* images, char* text,
                                     size_t capacity, size_t* length);
// IDCWH_INVALID_ARGUMENT, with both fingerprints, unless the manifest says that this model made the database.
IDCWH_API int idcwh_encoder_check_manifest(const idcwh_encoder* encoder, const char* manifest);

#ifdef __cplusplus
}
#endif
