// SPDX-License-Identifier: MIT
// The command line that all programs share: help with examples first, --version, flags
// that fall back to environment variables (--text of mnemon-train to MNEMON_TRAIN_TEXT,
// of mnemon to MNEMON_TEXT), errors that name the flag or the variable, exit codes 0,
// 1, 2, and 128 + the signal that ended a command.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mnemon {

// What a command reports: OK = exit code 0, a status made by UsageError = 2, by
// EndedBySignal = 128 + the signal, any other error = 1. The message goes to standard
// error behind the binary's name.
using CommandBody = std::function<absl::Status()>;

absl::Status UsageError(std::string message);
// Of a command that a signal ended, as its sender knows: nothing is printed.
absl::Status EndedBySignal(int signal);
// `error`, whose message the command has written itself: nothing more is printed.
absl::Status Told(absl::Status error);

// Where the value of a flag goes; what stands there before is its default, which --help
// shows. A bool is
// a switch without a value, a vector takes all the values of a repeated flag. Integers
// are decimal; one with a leading zero, as in 010, is refused.
using FlagTarget = std::variant<
    bool*, std::string*, int32_t*, int64_t*, double*, std::optional<int32_t>*,
    std::optional<int64_t>*, std::optional<uint64_t>*, std::optional<double>*,
    std::vector<std::string>*, std::vector<int32_t>*, std::vector<int64_t>*>;

// What is wrong with `text` where a number was wanted that it could not be read as:
// "'hot' is not a number"; if it is one, "'1.5' is not a whole number", or "'1e99' is
// out of range".
std::string NumberFault(const std::string& text);

// Rules for a flag of a command. A handle, valid as long as its CommandLine.
class Flag {
 public:
  explicit Flag(CLI::Option& option) : option_(&option) {}
  Flag& Required();
  // Numbers only; both ends included. Errors name `unit`, a plural, if it is not empty.
  Flag& Between(double least, double most, const std::string& unit = "");
  Flag& OneOf(std::vector<std::string> names);
  // Several values in one argument: 1,2,3.
  Flag& WithCommas();
  Flag& Excludes(const Flag& other);
  // What holds without the flag, for --help: of a target that is empty, or whose value
  // depends on the machine.
  Flag& Default(const std::string& what);

 private:
  CLI::Option* option_;
};

// A command that takes flags. A handle, valid as long as its CommandLine.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}
  // `name`: "--flag", or bare for a positional argument; "--flag,--other" has a second
  // name; the environment variable is called after the first. `target` must outlive
  // Run.
  Flag Add(const std::string& name, FlagTarget target, const std::string& help);

 private:
  friend class CommandLine;
  CLI::App* app_;
};

// Not safe for concurrent use; a local variable of main.
class CommandLine {
 public:
  // `examples`: command lines shown first in --help.
  CommandLine(std::string binary, std::string summary,
              std::vector<std::string> examples, std::string version);
  ~CommandLine();

  // Takes the flags of a binary without subcommands.
  Command root();
  // For a binary without subcommands.
  void SetBody(CommandBody body);
  // Adds subcommand `name` under `parent` (the root when null).
  Command AddCommand(const std::string& name, const std::string& summary,
                     std::vector<std::string> examples, CommandBody body,
                     const Command* parent = nullptr);

  // A command of the root that was called `before` once: answered by its present name,
  // as wrong usage.
  void AddRenamed(const std::string& before, const std::string& now);

  // Parses, runs the chosen body, returns the exit code. Exceptions of libraries become
  // exit code 1.
  int Run(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mnemon
