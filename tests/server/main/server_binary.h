// SPDX-License-Identifier: MIT
// The binaries as people and scripts run them: mnemon-server over tiny checkpoints with
// random weights, and mnemon.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process/child_process.h"
#include "gtest/gtest.h"
#include "model/families/config.h"

namespace mnemon {

class ServerBinary : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();

  // Path in the directory of the suite, which holds the checkpoints tiny (fast
  // weights), segment (Transformer-XL) and encoder.
  static std::string Path(const std::string& name) { return dir_ + "/" + name; }

  static std::unique_ptr<ChildProcess> Server(std::vector<std::string> flags);
  // A server of the tiny model that listens. `standard_error`: file for it; empty:
  // ChildProcess's.
  std::unique_ptr<ChildProcess> Listening(std::vector<std::string> flags = {},
                                          const std::string& standard_error = "");

  std::unique_ptr<ChildProcess> Client(std::vector<std::string> arguments,
                                       const std::optional<std::string>& input = "");
  // Output of `mnemon`, on standard error if another exit code than 0 is expected.
  std::string Mnemon(const std::vector<std::string>& arguments, int expected = 0,
                     const std::string& input = "");

  // Waits until standard error of `process`, which may be written by a thread of its
  // own, has `text`; false when it does not come.
  static bool Says(const ChildProcess& process, const std::string& text);

  static std::string dir_;
  std::string port_;
  int http_port_ = 0;
};

}  // namespace mnemon
