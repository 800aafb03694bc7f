// See segment_structures.hpp.
#include "storage/segment_structures.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "structures/structures.hpp"

namespace idcwh::storage {

std::shared_ptr<const FileView> with_structures(const FileView& view, const OptimizeOptions& options, bool rebuild) {
    const auto segments = view.segments();
    auto entries = view.entries();
    OptimizeOptions rest = options;
    const auto take = [&rest](std::size_t bytes) {
        if (rest.memory != OptimizeOptions::default_memory) rest.memory -= std::min(rest.memory, bytes);
    };
    for (auto& entry : entries) {
        if (rebuild) entry.structures.reset(), entry.tried = false;
        if (entry.structures) take(entry.structures->memory());
    }
    std::vector<std::size_t> order(entries.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return segments[a].rows > segments[b].rows; });
    for (const std::size_t i : order) {
        if (entries[i].tried) continue;
        entries[i].structures = detail::build_structures(segments[i], rest);
        entries[i].tried = true;
        if (entries[i].structures) take(entries[i].structures->memory());
    }
    view.check();  // a truncated file reads as zeros, so the structures may be wrong
    return std::make_shared<const FileView>(view, std::move(entries));
}

std::shared_ptr<const FileView> without_structures(const FileView& view) {
    auto entries = view.entries();
    for (auto& entry : entries) entry.structures.reset(), entry.tried = false;
    return std::make_shared<const FileView>(view, std::move(entries));
}

bool wants_structures(const FileView& view) {
    // Chosen so that structures are not built again after every small change; no benchmark measures these two numbers.
    constexpr std::size_t least = 16384;
    std::size_t rows = 0, untried = 0;
    for (const auto& entry : view.entries()) {
        rows += entry.items->rows();
        if (!entry.tried) untried += entry.items->rows();
    }
    return untried > std::max(least, rows / 8);
}

}  // namespace idcwh::storage
