// What optimize() of a database builds: structures over the segments of a file, in memory. The file stays as it is, and
// so do the results of searches.
#pragma once

#include <idcwh/index.hpp>

#include <memory>

#include "storage/file_view.hpp"

namespace idcwh::storage {

// The view with structures over all its segments: those that it has are kept unless `anew`. The largest segments come
// first, as long as the memory lasts.
std::shared_ptr<const FileView> with_structures(const FileView& view, const OptimizeOptions& options, bool anew);
std::shared_ptr<const FileView> without_structures(const FileView& view);

// Whether the codes that no structure was tried for are too many to be scanned beside the others.
bool wants_structures(const FileView& view);

}  // namespace idcwh::storage
