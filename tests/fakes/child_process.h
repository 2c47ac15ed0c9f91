// SPDX-License-Identifier: MIT
// A program run by a test: bounded in time, and gone when the test is.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace mnemon {

// One thread.
class ChildProcess {
 public:
  // Starts argv[0] with standard output and error going to files below `dir`; standard
  // input gets `input` and then ends, or stays open and silent when that is absent.
  ChildProcess(const std::string& dir, const std::vector<std::string>& argv,
               const std::optional<std::string>& input = "");
  // Kills and reaps what still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void Signal(int signal);
  // The exit code, 128 + the signal that ended it, or nullopt when it still runs.
  std::optional<int> Wait(std::chrono::milliseconds timeout = std::chrono::seconds(30));
  // What it has written so far.
  std::string out() const;
  std::string err() const;
  pid_t pid() const { return pid_; }

 private:
  std::string out_path_;
  std::string err_path_;
  pid_t pid_ = -1;
  int input_ = -1;
  std::optional<int> code_;
};

}  // namespace mnemon
