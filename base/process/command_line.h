// SPDX-License-Identifier: MIT
// The command line of all programs: help with examples first, --version, flags that
// default to environment variables (--text of mnemon-train to MNEMON_TRAIN_TEXT, of
// mnemon to MNEMON_TEXT), errors that name the flag or the variable, exit codes 0, 1,
// 2, and 128 + the signal that ended a command.
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

// Result of a command: OK is exit code 0, UsageError 2, EndedBySignal 128 + the signal,
// any other error 1. The message is printed to standard error after the binary's name.
using CommandBody = std::function<absl::Status()>;

absl::Status UsageError(std::string message);
// For a command ended by a signal; prints nothing, since its sender knows.
absl::Status EndedBySignal(int signal);
// `error`, whose message the command has printed itself: prints nothing more.
absl::Status Told(absl::Status error);

// Destination of a flag's value; its content before parsing is the default, which
// --help shows. A bool is a switch without a value, a vector takes all values of a
// repeated flag. Integers are decimal; a leading zero, as in 010, is refused.
using FlagTarget = std::variant<
    bool*, std::string*, int32_t*, int64_t*, double*, std::optional<int32_t>*,
    std::optional<int64_t>*, std::optional<uint64_t>*, std::optional<double>*,
    std::vector<std::string>*, std::vector<int32_t>*, std::vector<int64_t>*>;

// Why `text` could not be read as a number: "'hot' is not a number"; "'1.5' is not a
// whole number"; "'1e99' is out of range".
std::string NumberFault(const std::string& text);

// Rules for a flag of a command. A handle, valid as long as its CommandLine.
class Flag {
 public:
  explicit Flag(CLI::Option& option) : option_(&option) {}
  Flag& Required();
  // Limits a number, inclusive. Errors name `unit`, a plural, unless empty.
  Flag& Between(double least, double most, const std::string& unit = "");
  Flag& OneOf(std::vector<std::string> names);
  // Allows several values in one argument: 1,2,3.
  Flag& WithCommas();
  Flag& Excludes(const Flag& other);
  // Default shown by --help, if the target is empty or its value depends on the
  // machine.
  Flag& Default(const std::string& what);

 private:
  CLI::Option* option_;
};

// A command that takes flags. A handle, valid as long as its CommandLine.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}
  // `name`: "--flag", or without dashes for a positional argument; "--flag,--other" has
  // a second name; the environment variable is named after the first. `target` must
  // outlive Run.
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
  // Adds subcommand `name` under `parent` (the root if null).
  Command AddCommand(const std::string& name, const std::string& summary,
                     std::vector<std::string> examples, CommandBody body,
                     const Command* parent = nullptr);

  // A former name of a command of the root: the answer is a usage error that names the
  // present one.
  void AddRenamed(const std::string& before, const std::string& now);

  // Parses, runs the chosen body, returns the exit code. Exceptions of libraries become
  // exit code 1.
  int Run(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mnemon
