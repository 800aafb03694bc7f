// SHA-256 (FIPS 180-4): the fingerprint of a model.
#pragma once

#include <string>
#include <string_view>

namespace idcwh {

std::string sha256(std::string_view bytes);  // 64 hexadecimal digits

}  // namespace idcwh
