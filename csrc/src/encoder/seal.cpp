#include "encoder/seal.hpp"

#include <algorithm>

#include "encoder/sha256.hpp"

namespace idcwh {
namespace {

// The last field of a sealed file, but for the 64 digits behind it: metadata_props (14) of 80 bytes, its key, its
// value.
constexpr std::string_view head =
    "\x72\x50"
    "\x0a\x0c"
    "idcwh_sha256"
    "\x12\x40";
constexpr std::size_t digits = 64;
static_assert(head.size() + digits == 2 + 80);

}  // namespace

Examined examine(std::string_view model) {
    const std::size_t tail = std::min(model.size(), head.size() + digits), body = model.size() - tail;
    Sha256 hash;
    hash.update(model.substr(0, body));
    const bool last = tail == head.size() + digits && model.substr(body, head.size()) == head;
    const bool whole = last && model.substr(body + head.size()) == hash.hex();
    hash.update(model.substr(body));
    // Programs that write a model anew keep its metadata: the line is there, but no longer fits or no longer comes
    // last.
    const Seal seal = whole ? Seal::whole : model.find(head) != model.npos ? Seal::broken : Seal::none;
    return {seal, hash.hex()};
}

}  // namespace idcwh
