// SPDX-License-Identifier: MIT
// A child process of a test or of the load generator. Waits have time limits; the
// process is killed when its owner is destroyed.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "absl/status/statusor.h"

namespace mnemon {

// Used by one thread, which must outlive the child: the kernel kills it when the thread
// that started it ends.
class ChildProcess {
 public:
  // Starts argv[0] with standard output and error redirected to files below
  // `directory`. Standard input contains `input`, or stays open and silent if absent.
  ChildProcess(const std::string& directory, const std::vector<std::string>& argv,
               const std::optional<std::string>& input = "");
  // Kills and reaps the process if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void Signal(int signal);
  // The exit code, 128 + the signal that ended it, or nullopt if it still runs after
  // `timeout`.
  std::optional<int> Wait(std::chrono::milliseconds timeout = std::chrono::minutes(5));
  // Its output so far.
  std::string out() const;
  std::string err() const;
  pid_t pid() const { return pid_; }
  // User and system time of all its threads so far, in seconds; 0 after it is gone.
  double CpuSeconds() const;

 private:
  std::string out_path_;
  std::string err_path_;
  pid_t pid_ = -1;
  int input_ = -1;
  std::optional<int> code_;
};

// Standard output of a program that must exit with 0 within `timeout`; else INTERNAL or
// DEADLINE_EXCEEDED with the end of its output.
absl::StatusOr<std::string> RunToEnd(const std::string& directory,
                                     const std::vector<std::string>& argv,
                                     std::chrono::milliseconds timeout);

}  // namespace mnemon
