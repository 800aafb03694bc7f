// fail(): throws Error(invalid_argument).
#pragma once

#include <idcwh/error.hpp>

#include <string>
#include <utility>

namespace idcwh {

[[noreturn]] inline void fail(ErrorParts parts) { throw Error(ErrorCode::invalid_argument, std::move(parts)); }
[[noreturn]] inline void fail(const std::string& problem) { throw Error(ErrorCode::invalid_argument, problem); }

}  // namespace idcwh
