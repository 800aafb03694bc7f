// CPU quotas of Linux control groups. /proc/self/cgroup lists the groups of this process, and /proc/self/mountinfo the
// folders in which the kernel shows them: cgroups(7), proc(5).
#include "base/cores.hpp"

#include <idcwh/search.hpp>
#include <idcwh/threads.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace idcwh {
namespace {

using Parts = std::vector<std::string_view>;

// Returns the content of a file, or "" if it cannot be read.
std::string read(const std::string& path) {
    std::string text;
    if (const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "r"), std::fclose); file) {
        char buffer[4096];
        while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, file.get())) text.append(buffer, got);
    }
    return text;
}

Parts split(std::string_view text, char separator) {
    Parts parts;
    for (std::size_t end; (end = text.find(separator)) != text.npos; text.remove_prefix(end + 1))
        parts.push_back(text.substr(0, end));
    parts.push_back(text);
    return parts;
}

bool has(const Parts& parts, std::string_view part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
}

// Returns the quota of one group in cores, or 0 if it has none.
double quota_of(const std::string& folder, bool v2) {
    std::string quota, period;
    if (v2) {
        quota = read(folder + "/cpu.max");  // "150000 100000" or "max 100000"
        period = quota.substr(std::min(quota.size(), quota.find(' ')));
    } else {
        quota = read(folder + "/cpu.cfs_quota_us");  // -1: none
        period = read(folder + "/cpu.cfs_period_us");
    }
    const double quota_us = std::strtod(quota.c_str(), nullptr), period_us = std::strtod(period.c_str(), nullptr);
    return quota_us > 0 && period_us > 0 ? quota_us / period_us : 0;
}

// Returns the path of this process's group. groups: the text of /proc/self/cgroup.
std::string_view group_of(const std::string& groups, bool v2) {
    for (const std::string_view line : split(groups, '\n')) {  // number:controllers:path
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (second == line.npos) continue;
        const auto controllers = line.substr(first + 1, second - first - 1);
        if (v2 ? line.starts_with("0::") : has(split(controllers, ','), "cpu")) return line.substr(second + 1);
    }
    return {};
}

}  // namespace

unsigned cpu_quota(const std::string& root) {
    const std::string groups = read(root + "/proc/self/cgroup"), mounts = read(root + "/proc/self/mountinfo");
    double least = 0;
    for (const std::string_view line : split(mounts, '\n')) {
        // id parent major:minor root folder options [fields] - type source options
        const std::size_t dash = line.find(" - ");
        if (dash == line.npos) continue;
        const Parts mount = split(line.substr(0, dash), ' '), type = split(line.substr(dash + 3), ' ');
        if (mount.size() < 5 || type.size() < 3) continue;
        const bool v2 = type[0] == "cgroup2";
        if (!v2 && !(type[0] == "cgroup" && has(split(type[2], ','), "cpu"))) continue;
        // In a container, its group is the root of the mount or of the cgroup namespace.
        std::string_view group = group_of(groups, v2);
        const std::string_view above = mount[3] == "/" ? std::string_view() : mount[3];
        group = group.starts_with(above) ? group.substr(above.size()) : std::string_view();
        if (!group.starts_with('/')) group = {};
        const std::string folder = root + std::string(mount[4]);
        for (;; group = group.substr(0, group.rfind('/'))) {
            const double quota = quota_of(folder + std::string(group), v2);
            if (quota > 0 && (least == 0 || quota < least)) least = quota;
            if (group.find('/') == group.npos) break;
        }
    }
    return static_cast<unsigned>(std::ceil(std::min(least, 1.0 * max_threads)));
}

unsigned available_cores() {
    unsigned cores = std::max(1u, std::thread::hardware_concurrency());
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) cores = static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
#endif
    // Read once, because reading the files takes longer than a small search. There is no lock, because a fork could
    // leave it locked.
    static std::atomic<unsigned> known{0};
    unsigned quota = known.load();
    if (!quota) {
        quota = cpu_quota();
        known.store(quota = quota ? quota : max_threads);
    }
    return std::min({cores, quota, max_threads});
}

}  // namespace idcwh
