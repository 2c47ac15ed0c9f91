// SPDX-License-Identifier: MIT
// Commands of mnemon, run inside the process of a test.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "client/commands/commands.h"
#include "gtest/gtest.h"

namespace mnemon::client {

struct Ran {
  int code = 0;
  std::string out;
  std::string err;
};

// Runs a command with those that tests use; returns the exit code. `words` are without
// --server.
inline int ExitCode(const std::string& server, std::vector<std::string> words) {
  words.insert(words.begin(), "mnemon");
  words.insert(words.end(), {"--server", server});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  CommandLine line("mnemon", "", {}, "");
  AddGenerateCommand(line);
  AddScoreCommand(line);
  AddSessionsCommand(line);
  return line.Run(static_cast<int>(arguments.size()), arguments.data());
}

inline Ran RunCommand(const std::string& server, std::vector<std::string> words) {
  SetLogLevel(LogLevel::kError);  // the server's
  FlushLog();
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ran ran;
  ran.code = ExitCode(server, std::move(words));
  ran.out = testing::internal::GetCapturedStdout();
  ran.err = testing::internal::GetCapturedStderr();
  SetLogLevel(LogLevel::kInfo);
  return ran;
}

}  // namespace mnemon::client
