// The state that all handles of one index share: its versions and the writer's lock.
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

    // The members below belong to the writer.
    std::mutex writing;
    // memory for structures that are rebuilt as the index changes; set by optimize()
    std::optional<std::size_t> structure_memory;
    std::size_t tried_at = 0;  // number of rows when structures were last built or did not pay
};

// A view that keeps a version alive.
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
