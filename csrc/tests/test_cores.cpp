// CPU quotas from simulated control groups of both versions, and the affinity mask.
#include "base/cores.hpp"

#include <idcwh/threads.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

namespace {

using Files = std::vector<std::pair<std::string, std::string>>;  // path, text

unsigned quota(const Files& files) {
    const std::filesystem::path root = std::filesystem::current_path() / "cores_root";
    std::filesystem::remove_all(root);
    for (const auto& [path, text] : files) {
        std::filesystem::create_directories((root / path).parent_path());
        std::ofstream(root / path) << text;
    }
    const unsigned found = idcwh::cpu_quota(root.string());
    std::filesystem::remove_all(root);
    return found;
}

const std::string other_mounts =
    "22 27 0:21 / /proc rw,nosuid - proc proc rw\n"
    "no line of a mount\n"
    "31 27 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:10 - cgroup cgroup rw,memory\n";

TEST("quota of control groups version 2 is in cores") {
    const std::string mount = "proc/self/mountinfo",
                      mount_text = other_mounts +
                                   "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const auto inside = [&](const std::string& text) {  // a container sees its own group as the root
        return quota({{"proc/self/cgroup", "0::/\n"}, {mount, mount_text}, {"sys/fs/cgroup/cpu.max", text}});
    };
    CHECK(inside("max 100000\n") == 0);
    CHECK(inside("150000 100000\n") == 2);
    CHECK(inside("20000 100000\n") == 1);
    CHECK(inside("100000 50000\n") == 2);
    CHECK(inside("900000000000 100\n") == 1024);
    for (const char* text : {"", "\n", "rubbish", "150000", "150000 0", "-1 100000", "0 0"}) CHECK(inside(text) == 0);

    // The quota of a service in a slice is the smaller of the two.
    const auto below = [&](const std::string& slice, const std::string& service) {
        return quota({{"proc/self/cgroup", "1:name=systemd:/x\n0::/system.slice/a.service\n"},
                      {mount, mount_text},
                      {"sys/fs/cgroup/system.slice/cpu.max", slice},
                      {"sys/fs/cgroup/system.slice/a.service/cpu.max", service}});
    };
    CHECK(below("max 100000", "300000 100000") == 3);
    CHECK(below("400000 100000", "max 100000") == 4);
    CHECK(below("200000 100000", "300000 100000") == 2);
    CHECK(below("300000 100000", "200000 100000") == 2);
}

TEST("quota of control groups version 1 is in cores") {
    const std::string groups = "11:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n1:name=systemd:/docker/ab\n";
    const auto with = [&](const std::string& mount_root, const std::string& folder, const std::string& microseconds) {
        return quota(
            {{"proc/self/cgroup", groups},
             {"proc/self/mountinfo", other_mounts + "32 27 0:28 " + mount_root +
                                         " /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n"},
             {"sys/fs/cgroup/cpu,cpuacct" + folder + "/cpu.cfs_quota_us", microseconds},
             {"sys/fs/cgroup/cpu,cpuacct" + folder + "/cpu.cfs_period_us", "100000\n"}});
    };
    CHECK(with("/docker/ab", "", "250000\n") == 3);  // a container
    CHECK(with("/docker/ab", "", "-1\n") == 0);
    CHECK(with("/", "/docker/ab", "50000\n") == 1);  // the host's groups
    CHECK(with("/", "/docker", "400000\n") == 4);    // the parent group
    CHECK(with("/", "/docker/other", "400000\n") == 0);
    CHECK(with("/elsewhere", "", "200000\n") == 2);  // a group namespace of its own
}

// systemd's hybrid layout has both versions.
TEST("quota of the hybrid layout is that of version 1") {
    CHECK(quota({{"proc/self/cgroup", "4:cpu,cpuacct:/a\n0::/b\n"},
                 {"proc/self/mountinfo",
                  "30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                  "32 27 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"},
                 {"sys/fs/cgroup/unified/b/cgroup.procs", ""},
                 {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "600000"},
                 {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "200000"}}) == 3);
}

TEST("quota without control groups is 0") {
    CHECK(quota({}) == 0);
    CHECK(quota({{"proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"}}) == 0);
    CHECK(quota({{"proc/self/cgroup", "0::/\n"}}) == 0);
}

TEST("available_cores follows the affinity mask") {
    CHECK(idcwh::available_cores() >= 1);
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    int first = 0;
    while (!CPU_ISSET(first, &set)) ++first;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    if (sched_setaffinity(0, sizeof set, &set) == 0) CHECK(idcwh::available_cores() == 1);
#endif
}

}  // namespace

int main(int argc, char** argv) { return check::run(argc, argv); }
