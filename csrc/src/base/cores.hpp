// The number of cores that this process may use: its affinity mask, and the CPU quotas of its control groups.
#pragma once

#include <string>

namespace idcwh {

// The smallest CPU quota of this process's control groups and of those above them (Linux, cgroup v1 and v2), in whole
// cores, rounded up; 0: none. /proc and /sys are read below `root`.
unsigned cpu_quota(const std::string& root = "");

}  // namespace idcwh
