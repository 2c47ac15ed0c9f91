// SPDX-License-Identifier: MIT
#include "server/http/readings.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

std::map<std::string, double> Values(
    const std::vector<prometheus::MetricFamily>& families) {
  std::map<std::string, double> values;
  for (const prometheus::MetricFamily& family : families) {
    const bool gauge = family.type == prometheus::MetricType::Gauge;
    values[family.name] =
        gauge ? family.metric.at(0).gauge.value : family.metric.at(0).counter.value;
  }
  return values;
}

TEST(ProcessReadings, TellOfThisProcess) {
  auto values = Values(ProcessReadings());
  EXPECT_GT(values["process_resident_memory_bytes"], 1 << 20);
  EXPECT_GT(values["process_virtual_memory_bytes"],
            values["process_resident_memory_bytes"]);
  EXPECT_GE(values["process_threads"], 1);
  EXPECT_GE(values["process_open_fds"], 3);
  EXPECT_GE(values["process_max_fds"], values["process_open_fds"]);
  EXPECT_GE(values["process_cpu_seconds_total"], 0);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  EXPECT_LE(values["process_start_time_seconds"], now + 1);
  EXPECT_GT(values["process_start_time_seconds"], now - 86400);
}

// The name of a process may hold spaces and parentheses.
TEST(ProcessReadings, AreTakenFromTheFiles) {
  const fs::path proc =
      fs::path(testing::TempDir()) / ("mnemon-proc-" + std::to_string(getpid()));
  fs::create_directories(proc / "self/fd");
  std::ofstream(proc / "self/fd/0");
  std::ofstream(proc / "stat") << "cpu 1 2\nbtime 1000\n";
  std::ofstream(proc / "self/stat") << "7 (a) b (c) S 1 7 7 0 -1 4 5 0 0 0 300 100 0 0 "
                                       "20 0 9 0 500 8192 2 18446744\n";
  auto values = Values(ProcessReadings(proc.string()));
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(values["process_cpu_seconds_total"], 400 / ticks);
  EXPECT_EQ(values["process_threads"], 9);
  EXPECT_EQ(values["process_start_time_seconds"], 1000 + 500 / ticks);
  EXPECT_EQ(values["process_virtual_memory_bytes"], 8192);
  EXPECT_EQ(values["process_resident_memory_bytes"], 2.0 * sysconf(_SC_PAGESIZE));
  EXPECT_EQ(values["process_open_fds"], 1);
  std::ofstream(proc / "self/stat") << "7 (a) S 1";
  EXPECT_FALSE(Values(ProcessReadings(proc.string())).contains("process_threads"));
  fs::remove_all(proc);
}

TEST(ProcessReadings, WhatIsNotThereIsLeftOut) {
  const auto values = Values(ProcessReadings("/absent"));
  EXPECT_EQ(values.size(), 1u);
  EXPECT_TRUE(values.contains("process_max_fds"));
}

}  // namespace
}  // namespace mnemon
