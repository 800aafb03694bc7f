#include "encoder/checksum.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/sha256.hpp"

namespace idcwh {
namespace {

// The last field of a file with a checksum, without its 64 digits: metadata_props (14) of 80 bytes with key and value.
constexpr std::string_view head =
    "\x72\x50"
    "\x0a\x0c"
    "idcwh_sha256"
    "\x12\x40";
constexpr std::size_t digits = 64;
static_assert(head.size() + digits == 2 + 80);

// The protocol buffer messages on the way to tensors.
enum class Message { none, model, training, graph, function, node, attribute, sparse, tensor };
Message inside(Message message, std::uint64_t field) {
    using enum Message;
    switch (message) {
        case model: return field == 7 ? graph : field == 20 ? training : field == 25 ? function : none;
        case training: return field == 1 || field == 2 ? graph : none;
        case graph: return field == 1 ? node : field == 5 ? tensor : field == 15 ? sparse : none;
        case function: return field == 7 ? node : field == 11 ? attribute : none;
        case node: return field == 5 ? attribute : none;
        case attribute:
            if (field == 5 || field == 10) return tensor;
            if (field == 6 || field == 11) return graph;
            return field == 22 || field == 23 ? sparse : none;
        case sparse: return field == 1 || field == 2 ? tensor : none;
        default: return none;
    }
}

// Calls what(number, content) for each field of a message that has a length. Stops at the first invalid field.
template <class What>
void each_field(std::string_view message, What what) {
    const auto number = [&](std::uint64_t& value) {
        value = 0;
        for (unsigned shift = 0; shift < 64 && !message.empty(); shift += 7) {
            const auto byte = static_cast<std::uint8_t>(message[0]);
            message.remove_prefix(1);
            value |= std::uint64_t{byte & 0x7fu} << shift;
            if (byte < 0x80) return true;
        }
        return false;
    };
    const auto skip = [&](std::uint64_t size) {
        const bool there = size <= message.size();
        if (there) message.remove_prefix(static_cast<std::size_t>(size));
        return there;
    };
    std::uint64_t tag, size;
    while (!message.empty() && number(tag)) {
        switch (tag & 7) {
            case 0:
                if (!number(size)) return;
                break;
            case 1:
                if (!skip(8)) return;
                break;
            case 2: {
                if (!number(size) || size > message.size()) return;
                what(tag >> 3, message.substr(0, static_cast<std::size_t>(size)));
                skip(size);
                break;
            }
            case 5:
                if (!skip(4)) return;
                break;
            default: return;
        }
    }
}

}  // namespace

std::string external_data(std::string_view model) {
    std::string place;
    std::vector<std::pair<Message, std::string_view>> messages = {{Message::model, model}};
    while (!messages.empty() && place.empty()) {
        const auto [message, content] = messages.back();
        messages.pop_back();
        each_field(content, [&, kind = message](std::uint64_t field, std::string_view value) {
            if (kind == Message::tensor && field == 13) {  // external data as key and value
                std::string_view key, text;
                each_field(value, [&](std::uint64_t part, std::string_view of) { (part == 1 ? key : text) = of; });
                if (key == "location") place = text.empty() ? "?" : text;
            } else if (const Message next = inside(kind, field); next != Message::none) {
                messages.emplace_back(next, value);
            }
        });
    }
    return place;
}

Examined examine(std::string_view model) {
    const std::size_t tail = std::min(model.size(), head.size() + digits), body = model.size() - tail;
    Sha256 hash;
    hash.update(model.substr(0, body));
    const bool last = tail == head.size() + digits && model.substr(body, head.size()) == head;
    const bool whole = last && model.substr(body + head.size()) == hash.hex();
    hash.update(model.substr(body));
    // A program that rewrites a model keeps its metadata. The checksum then no longer matches or is no longer the last
    // field.
    const ChecksumState checksum = whole                            ? ChecksumState::valid
                                   : model.find(head) != model.npos ? ChecksumState::wrong
                                                                    : ChecksumState::missing;
    return {checksum, hash.hex()};
}

}  // namespace idcwh
