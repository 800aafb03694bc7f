// What the handles of one index share: its versions, and the writer's turn.
#pragma once

#include <idcwh/index.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "index/contents.hpp"
#include "index/versions.hpp"

namespace idcwh::detail {

class IndexState {
public:
    explicit IndexState(std::unique_ptr<const Contents> first) : versions(std::move(first)) {}

    Versions<Contents> versions;
    std::atomic<unsigned> threads{0};

    // The writer's.
    std::mutex writing;
    std::optional<std::size_t> structure_memory;  // set by optimize(): what it may build anew as the index changes
    std::size_t tried_at = 0;                     // rows when structures were last built, or found not to pay
};

}  // namespace idcwh::detail
