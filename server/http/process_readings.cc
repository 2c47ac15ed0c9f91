// SPDX-License-Identifier: MIT
#include "server/http/process_readings.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

namespace mnemon {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

void AddReading(std::vector<MetricFamily>& families, const char* name, const char* help,
                double value, MetricType type = MetricType::Gauge) {
  MetricFamily& family = families.emplace_back();
  family.name = name;
  family.help = help;
  family.type = type;
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  (type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value;
}

// Fields of proc(5)'s stat from the third on, behind the name, which may hold anything.
struct Stat {
  double user_ticks = 0, system_ticks = 0;
  double threads = 0;
  double start_ticks = 0;
  double virtual_bytes = 0;
  double resident_pages = 0;
};

std::optional<Stat> ReadStat(const std::string& path) {
  std::ifstream in(path);
  std::string text(std::istreambuf_iterator<char>(in), {});
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  fields >> state;
  double value[25] = {};  // by number, from 4 on
  for (int i = 4; i <= 24; ++i) {
    if (!(fields >> value[i])) return std::nullopt;
  }
  return Stat{.user_ticks = value[14],
              .system_ticks = value[15],
              .threads = value[20],
              .start_ticks = value[22],
              .virtual_bytes = value[23],
              .resident_pages = value[24]};
}

// Seconds since 1970.
std::optional<double> ReadBootTime(const std::string& path) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string name;
    double value = 0;
    if (fields >> name && name == "btime" && fields >> value) return value;
  }
  return std::nullopt;
}

std::optional<double> CountFiles(const std::string& directory) {
  std::error_code error;
  double count = 0;
  std::filesystem::directory_iterator at(directory, error), end;
  for (; !error && at != end; at.increment(error)) ++count;
  if (error) return std::nullopt;
  return count;
}

}  // namespace

std::vector<MetricFamily> ProcessReadings(const std::string& proc) {
  std::vector<MetricFamily> families;
  if (const auto stat = ReadStat(proc + "/self/stat")) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    AddReading(families, "process_cpu_seconds_total",
               "Processor time of the process, of user and system.",
               (stat->user_ticks + stat->system_ticks) / ticks, MetricType::Counter);
    AddReading(families, "process_resident_memory_bytes",
               "Bytes of the process in memory.",
               stat->resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE)));
    AddReading(families, "process_virtual_memory_bytes",
               "Bytes of the process's address space.", stat->virtual_bytes);
    AddReading(families, "process_threads", "Threads of the process.", stat->threads);
    if (const auto boot = ReadBootTime(proc + "/stat")) {
      AddReading(families, "process_start_time_seconds",
                 "Start of the process, in seconds since 1970.",
                 *boot + stat->start_ticks / ticks);
    }
  }
  if (const auto open = CountFiles(proc + "/self/fd")) {
    AddReading(families, "process_open_fds", "Open file descriptors.", *open);
  }
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    AddReading(families, "process_max_fds", "File descriptors that may be open.",
               static_cast<double>(limit.rlim_cur));
  }
  return families;
}

}  // namespace mnemon
