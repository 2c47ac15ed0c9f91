// SPDX-License-Identifier: MIT
// A child process of a test or of the load generator. Each wait for it has a time
// limit; it is killed when its owner is destroyed.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "absl/status/statusor.h"

namespace mnemon {

// Used by one thread, which must outlive the program: the kernel kills the program when
// the thread that started it ends.
class ChildProcess {
 public:
  // Starts argv[0] with standard output and error going to files below `directory`;
  // standard input gets `input` and then ends, or stays open and silent when that is
  // absent.
  ChildProcess(const std::string& directory, const std::vector<std::string>& argv,
               const std::optional<std::string>& input = "");
  // Kills and reaps what still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void Signal(int signal);
  // The exit code, 128 + the signal that ended it, or nullopt when it still runs
  // after `timeout`.
  std::optional<int> Wait(std::chrono::milliseconds timeout = std::chrono::minutes(5));
  // What it has written so far.
  std::string out() const;
  std::string err() const;
  pid_t pid() const { return pid_; }
  // User and system time of all its threads so far, in seconds; 0 when it is gone.
  double CpuSeconds() const;

 private:
  std::string out_path_;
  std::string err_path_;
  pid_t pid_ = -1;
  int input_ = -1;
  std::optional<int> code_;
};

// Standard output of a program that has to end with 0 within `timeout`; else INTERNAL
// or DEADLINE_EXCEEDED with the end of what it wrote.
absl::StatusOr<std::string> RunToEnd(const std::string& directory,
                                     const std::vector<std::string>& argv,
                                     std::chrono::milliseconds timeout);

}  // namespace mnemon
