// The CPU quota of this process, which available_cores() (threads.hpp) uses.
#pragma once

#include <string>

namespace idcwh {

// Returns the smallest CPU quota of this process's control groups and their parents (Linux, cgroup v1 and v2), in
// cores, rounded up. Returns 0 if there is none. `root` is a prefix of /proc and /sys, for tests.
unsigned cpu_quota(const std::string& root = "");

}  // namespace idcwh
