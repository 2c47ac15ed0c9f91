// SPDX-License-Identifier: MIT
#include "bench/serving/process_use.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/strings.h"

namespace mnemon::serving {
namespace {

double FieldOf(const std::string& status, const std::string& name) {
  const size_t at = status.find("\n" + name + ":");
  return at == std::string::npos ? 0 : std::atof(status.c_str() + at + name.size() + 2);
}

}  // namespace

ProcessUse UseOf(pid_t pid) {
  const std::string process = StrCat("/proc/", pid);
  std::ifstream file(process + "/status");
  const std::string status((std::istreambuf_iterator<char>(file)), {});
  std::error_code gone;
  std::filesystem::directory_iterator fds(process + "/fd", gone);
  return {.megabytes = FieldOf(status, "VmRSS") * 1024 / 1e6,
          .descriptors = gone ? 0
                              : static_cast<int>(std::distance(
                                    fds, std::filesystem::directory_iterator())),
          .threads = static_cast<int>(FieldOf(status, "Threads"))};
}

}  // namespace mnemon::serving
