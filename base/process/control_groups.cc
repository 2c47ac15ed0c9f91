// SPDX-License-Identifier: MIT
#include "base/process/control_groups.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

namespace mnemon {
namespace {

// Version 1 writes the greatest number of whole pages if there is no limit.
constexpr int64_t kNoLimit = int64_t{1} << 62;

// A mounted hierarchy: the group `group` appears at `point`.
struct Mount {
  std::string group;
  std::string point;
  bool unified = false;             // version 2
  std::set<std::string> resources;  // version 1: controlled resources
};

std::set<std::string> Split(const std::string& text) {
  std::set<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.insert(part);
  return parts;
}

// Spaces and the like are written as three octal digits.
std::string Unescaped(std::string_view text) {
  const auto digit = [&](size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] < '8';
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<Mount> ReadMounts(const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream in(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string skipped, group, point;
    fields >> skipped >> skipped >> skipped >> group >> point;
    while (fields >> skipped && skipped != "-") {
    }
    std::string type, device, options;
    if (!(fields >> type >> device >> options)) continue;
    if (type != "cgroup" && type != "cgroup2") continue;
    mounts.push_back({.group = Unescaped(group),
                      .point = Unescaped(point),
                      .unified = type == "cgroup2",
                      .resources = Split(options)});
  }
  return mounts;
}

// The directory of `group` and its ancestors up to the mount. In a container the
// group's name may not be visible from inside; then the mount's.
std::vector<std::string> DirectoriesOf(const Mount& mount, std::string group) {
  const std::string top = mount.group == "/" ? "" : mount.group;
  const bool below = group.compare(0, top.size(), top) == 0 &&
                     (group.size() == top.size() || group[top.size()] == '/') &&
                     group.find("/..") == std::string::npos;
  group = below && group != "/" ? group.substr(top.size()) : "";
  std::vector<std::string> directories;
  while (!group.empty()) {
    directories.push_back(mount.point + group);
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  directories.push_back(mount.point);
  return directories;
}

template <class Value>
void Lower(std::optional<Value>& limit, Value value) {
  limit = limit ? std::min(*limit, value) : value;
}

template <class Value>
std::optional<Value> ReadNumber(const std::string& path) {
  std::ifstream in(path);
  Value value = 0;
  if (in >> value) return value;
  return std::nullopt;  // "max" too
}

void ReadUnified(const std::string& directory, GroupLimits& limits) {
  std::ifstream in(directory + "/cpu.max");
  double quota = 0, period = 0;
  if (in >> quota >> period && quota > 0 && period > 0) {
    Lower(limits.cores, quota / period);
  }
  if (const auto bytes = ReadNumber<int64_t>(directory + "/memory.max")) {
    Lower(limits.memory_bytes, *bytes);
  }
}

void ReadCores(const std::string& directory, GroupLimits& limits) {
  const auto quota = ReadNumber<double>(directory + "/cpu.cfs_quota_us");
  const auto period = ReadNumber<double>(directory + "/cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0) {
    Lower(limits.cores, *quota / *period);
  }
}

void ReadMemory(const std::string& directory, GroupLimits& limits) {
  const auto bytes = ReadNumber<int64_t>(directory + "/memory.limit_in_bytes");
  if (bytes && *bytes < kNoLimit) Lower(limits.memory_bytes, *bytes);
}

}  // namespace

GroupLimits ReadGroupLimits(const std::string& root) {
  GroupLimits limits;
  const std::vector<Mount> mounts = ReadMounts(root);
  std::ifstream groups(root + "/proc/self/cgroup");
  // number:resources:group; version 2 names no resources.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::set<std::string> resources =
        Split(line.substr(first + 1, second - first - 1));
    const std::string group = line.substr(second + 1);
    for (const Mount& mount : mounts) {
      const auto both = [&](const char* resource) {
        return resources.contains(resource) && mount.resources.contains(resource);
      };
      for (const std::string& at : DirectoriesOf(mount, group)) {
        if (mount.unified && resources.empty()) ReadUnified(root + at, limits);
        if (!mount.unified && both("cpu")) ReadCores(root + at, limits);
        if (!mount.unified && both("memory")) ReadMemory(root + at, limits);
      }
    }
  }
  return limits;
}

int64_t UsableMemory(const GroupLimits& limits) {
  const int64_t machine = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
                          static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  return std::min(machine, limits.memory_bytes.value_or(machine));
}

}  // namespace mnemon
