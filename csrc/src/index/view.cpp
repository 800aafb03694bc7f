// See view.hpp.
#include "index/view.hpp"

namespace idcwh::detail {

View::~View() = default;

std::size_t View::memory() const {
    std::size_t sum = 0;
    for (const Segment& segment : id_segments()) sum += segment.memory();
    return sum;
}

}  // namespace idcwh::detail
