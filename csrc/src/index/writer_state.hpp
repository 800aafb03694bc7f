// What the handles of one index share: its versions, and the writer's turn.
#pragma once

#include <idcwh/index.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "index/version.hpp"
#include "index/versions.hpp"
#include "index/view.hpp"

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

// A version that is held.
struct IndexView final : View {
    explicit IndexView(std::shared_ptr<IndexState> state);
    ~IndexView() override;

    std::span<const Segment> segments() const override { return {&segment_, 1}; }
    unsigned threads() const override { return state_->threads.load(); }
    std::size_t memory() const override { return contents_->memory(); }

private:
    std::shared_ptr<IndexState> state_;
    const Contents* contents_;
    std::size_t slot_;
    Segment segment_;
};

}  // namespace idcwh::detail
