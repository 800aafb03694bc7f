// SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace idcwh {

class Sha256 {
public:
    void update(std::string_view bytes);
    std::string hex() const;  // returns the hash of all bytes so far, 64 digits; more bytes may follow

private:
    std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char rest_[64] = {};  // the size_ % 64 bytes after the last whole block
    std::uint64_t size_ = 0;
};

inline std::string sha256(std::string_view bytes) {
    Sha256 hash;
    hash.update(bytes);
    return hash.hex();
}

}  // namespace idcwh
