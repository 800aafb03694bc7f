// Computes the pixels of an image, and catches errors of both libraries as the same class.
#include <idcwh/idcwh_encoder.h>
#include <idcwh/encoder.hpp>
#include <idcwh/search.hpp>

#include <cstdio>
#include <cstring>

int main() {
    const std::uint8_t rgb[2 * 2 * 3] = {0, 0, 0, 90, 90, 90, 90, 90, 90, 180, 180, 180};
    const auto preprocess = idcwh::Preprocess::from_json(R"({"resize": 1, "crop": 1, "interpolation": "box"})");
    const auto pixel = preprocess({rgb, 2, 2});
    if (pixel.size() != 3 || pixel[0] != 90 || pixel[2] != 90) return 1;
    try {
        preprocess({rgb, 0, 2});
        return 2;
    } catch (const idcwh::Error& error) {
        if (error.code() != idcwh::ErrorCode::invalid_argument) return 3;
    }
    try {
        const idcwh::Encoder encoder("no/such/model.onnx");
        return 4;
    } catch (const idcwh::SystemError& error) {
        if (error.path() != "no/such/model.onnx") return 5;
    }
    idcwh_preprocess* handle;
    if (idcwh_preprocess_create(240, 241, nullptr, &handle) != IDCWH_INVALID_ARGUMENT || handle) return 6;
    if (!std::strstr(idcwh_last_error(), "1 <= crop <= resize")) return 7;
    const std::uint8_t code = 1;
    std::int64_t count = 0;
    idcwh::count({&code, 1, 8}, &code, 1, 0, &count);
    if (count != 1) return 8;
    std::puts(preprocess.to_json().c_str());
}
