// SPDX-License-Identifier: MIT
// A server that a test kills and starts again.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/process/child_process.h"

namespace mnemon {

// mnemon-server on the same port of 127.0.0.1 over all its starts. Used by one thread,
// which must outlive it (ChildProcess); it is killed when its owner is destroyed.
class KilledServer {
 public:
  // `directory` must exist; the output of each start stays there. `flags`: all but
  // those for listening.
  KilledServer(std::string directory, std::vector<std::string> flags);

  // Starts it; returns the time until it was healthy. UNAVAILABLE, with its output, if
  // it ends, or is not healthy within a minute. REQUIRES: it does not run.
  absl::StatusOr<std::chrono::nanoseconds> Start();
  // SIGKILL; it is gone on return. REQUIRES: it runs.
  void Kill();

  const std::string& address() const { return address_; }
  // Its output since it was started; empty while it does not run.
  std::string log() const { return process_ ? process_->err() : ""; }

 private:
  const std::string directory_;
  const std::string address_;  // "127.0.0.1:port"
  std::vector<std::string> command_;
  std::unique_ptr<ChildProcess> process_;  // null: it does not run
};

}  // namespace mnemon
