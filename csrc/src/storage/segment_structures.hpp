// Search structures over the segments of a file, which Database::optimize() builds in memory. The file and the results
// of searches do not change.
#pragma once

#include <idcwh/index.hpp>

#include <memory>

#include "storage/file_view.hpp"

namespace idcwh::storage {

// Returns the view with structures over its segments, largest segments first, within the memory of the options. Keeps
// the structures that the view has unless `rebuild`.
std::shared_ptr<const FileView> with_structures(const FileView& view, const OptimizeOptions& options, bool rebuild);
std::shared_ptr<const FileView> without_structures(const FileView& view);

// Returns true if the codes for which no structure was tried are too many to be scanned.
bool wants_structures(const FileView& view);

}  // namespace idcwh::storage
