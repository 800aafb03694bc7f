// See writer_state.hpp.
#include "index/writer_state.hpp"

namespace idcwh::detail {

IndexView::IndexView(std::shared_ptr<IndexState> state) : state_(std::move(state)) {
    const auto held = state_->versions.take();
    contents_ = held.value;
    slot_ = held.slot;
    segment_ = contents_->segment();
    bits = contents_->bits;
    live = contents_->live;
    next_id = contents_->next_id;
}

IndexView::~IndexView() { state_->versions.give_back(slot_); }

}  // namespace idcwh::detail
