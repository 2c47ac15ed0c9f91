// SPDX-License-Identifier: MIT
#include "bench/serving/process_use.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "base/strings.h"

namespace mnemon::serving {
namespace {

double FieldOf(const std::string& status, const std::string& name) {
  const size_t at = status.find("\n" + name + ":");
  return at == std::string::npos ? 0 : std::atof(status.c_str() + at + name.size() + 2);
}

int Descriptors(const std::string& folder) {
  int count = 0;
  std::error_code gone;
  std::filesystem::directory_iterator entry(folder, gone);
  while (entry != std::filesystem::directory_iterator()) {
    const std::filesystem::path file =
        std::filesystem::read_symlink(entry->path(), gone);
    if (file.extension() != ".sst" && file.extension() != ".blob") ++count;
    entry.increment(gone);
  }
  return count;
}

}  // namespace

ProcessUse UseOf(pid_t pid) {
  const std::string process = StrCat("/proc/", pid);
  std::ifstream file(process + "/status");
  const std::string status((std::istreambuf_iterator<char>(file)), {});
  return {.megabytes = FieldOf(status, "VmRSS") * 1024 / 1e6,
          .descriptors = Descriptors(process + "/fd"),
          .threads = static_cast<int>(FieldOf(status, "Threads"))};
}

}  // namespace mnemon::serving
