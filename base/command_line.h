// SPDX-License-Identifier: MIT
// One shape for all our commands: help with examples first, --version, flags that fall
// back to MNEMON_... variables, errors that name the flag, exit codes 0, 1 and 2.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace mnemon {

// What a command reports: OK = exit code 0, a status made by UsageError = 2, any other
// error = 1. The message goes to standard error behind the binary's name.
using CommandBody = std::function<absl::Status()>;

absl::Status UsageError(std::string message);

// Not safe for concurrent use; lives in main.
class CommandLine {
 public:
  // `examples`: command lines shown first in --help.
  CommandLine(std::string binary, std::string summary,
              std::vector<std::string> examples, std::string version);
  ~CommandLine();

  // Options common to the whole binary, or of a binary without subcommands.
  CLI::App& app();
  // For a binary without subcommands.
  void SetBody(CommandBody body);
  // Adds subcommand `name` under `parent` (the root when null); the result takes
  // options.
  CLI::App& AddCommand(const std::string& name, const std::string& summary,
                       std::vector<std::string> examples, CommandBody body,
                       CLI::App* parent = nullptr);

  // Parses, runs the chosen body, returns the exit code. Exceptions of libraries become
  // exit code 1.
  int Run(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mnemon
