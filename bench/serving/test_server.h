// SPDX-License-Identifier: MIT
// A mnemon-server started by mnemon-scenarios, on free ports of loopback.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/process/child_process.h"
#include "bench/serving/metrics_page.h"

namespace mnemon::serving {

struct StartOptions {
  // Words before the server's command line: a program that becomes the server, such as
  // prlimit.
  std::vector<std::string> launcher = {};
  std::string grace = "0";  // seconds
};

// Used by one thread, which must outlive the server.
class TestServer {
 public:
  // Starts `binary` with `flags` and waits until it listens. Files go to `directory`.
  // UNAVAILABLE with its log if it does not come up.
  static absl::StatusOr<std::unique_ptr<TestServer>> Start(
      const std::string& binary, const std::vector<std::string>& flags,
      const std::string& directory, const StartOptions& options = {});
  // SIGTERM; SIGKILL if it has not ended two seconds later.
  ~TestServer();

  // SIGTERM. Returns the exit code, 128 + the signal that ended it, or nullopt if it
  // still runs after `patience`.
  std::optional<int> Stop(std::chrono::milliseconds patience);
  // SIGKILL; returns when it is gone.
  void Kill();

  int port() const { return port_; }
  int http_port() const { return http_port_; }
  pid_t pid() const { return child_.pid(); }
  double CpuSeconds() const { return child_.CpuSeconds(); }
  // From the start of the process until it listened.
  std::chrono::duration<double> start_time() const { return start_time_; }
  // Its standard error so far.
  std::string log() const { return child_.err(); }
  absl::StatusOr<MetricsPage> Metrics() const { return MetricsPage::Fetch(http_port_); }

 private:
  TestServer(const std::string& directory, const std::vector<std::string>& words)
      : child_(directory, words) {}

  ChildProcess child_;
  int port_ = 0;
  int http_port_ = 0;
  std::chrono::duration<double> start_time_{};
};

// Whether the help of `binary` names `flag`.
absl::StatusOr<bool> TakesFlag(const std::string& binary, const std::string& flag,
                               const std::string& directory);

}  // namespace mnemon::serving
