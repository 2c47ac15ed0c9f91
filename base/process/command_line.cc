// SPDX-License-Identifier: MIT
#include "base/process/command_line.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <type_traits>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/process/completion.h"
#include "base/process/nearest_name.h"
#include "base/quote.h"

namespace mnemon {
namespace {

constexpr char kUsageUrl[] = "type.mnemon.dev/UsageError";
constexpr char kSignalUrl[] = "type.mnemon.dev/Signal";
constexpr char kToldUrl[] = "type.mnemon.dev/Told";
constexpr char kHelpAll[] = "help-all";
constexpr char kBashCompletion[] = "bash-completion";
constexpr char kFishCompletion[] = "fish-completion";
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kSignalled = 128;  // and the signal's number

// Puts examples between the summary and the list of options.
class ExamplesFirst final : public CLI::Formatter {
 public:
  ExamplesFirst(std::vector<std::string> examples) : examples_(std::move(examples)) {}

  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string text;
    if (!examples_.empty()) {
      text = absl::StrCat("\nExamples:\n  ", absl::StrJoin(examples_, "\n  "), "\n\n");
    }
    return text + CLI::Formatter::make_usage(app, name);
  }

 private:
  const std::vector<std::string> examples_;
};

// MNEMON_FLAG for mnemon, MNEMON_SERVER_FLAG for mnemon-server.
std::string EnvironmentName(std::string_view binary, std::string_view long_name) {
  std::string name(binary);
  if (name != "mnemon" && !absl::StartsWith(name, "mnemon-")) name = "mnemon-" + name;
  name.append("-").append(long_name);
  for (char& c : name) {
    c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

// Full name as typed: "mnemon sessions list".
std::string CommandName(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name()
                           : absl::StrCat(CommandName(*parent), " ", app.get_name());
}

// Help of the command, then of all commands below it, under headings that no help
// contains.
std::string HelpOfAll(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  std::string text =
      absl::StrCat("== ", CommandName(app), "\n\n",
                   app.help(parent == nullptr ? "" : CommandName(*parent)), "\n");
  for (const CLI::App* sub :
       app.get_subcommands([](const CLI::App*) { return true; })) {
    text += HelpOfAll(*sub);
  }
  return text;
}

CLI::App& ChosenCommand(CLI::App& app) {
  std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : ChosenCommand(*chosen.front());
}

std::vector<std::string> SubcommandNames(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

std::vector<std::string> FlagNames(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string UnknownArgument(CLI::App& root, const std::string& argument) {
  CLI::App& command = ChosenCommand(root);
  if (absl::StartsWith(argument, "-")) {
    const std::string flag = argument.substr(0, argument.find('='));
    const std::vector<std::string> flags = FlagNames(command);
    if (std::find(flags.begin(), flags.end(), flag) != flags.end()) {
      return absl::StrCat(flag, " comes too early: give it after ",
                          CommandName(command));
    }
    return absl::StrCat("unknown flag ", flag, DidYouMean(flag, flags));
  }
  std::vector<std::string> commands = SubcommandNames(command);
  if (commands.empty()) {
    return absl::StrCat("unexpected argument '", argument, "'");
  }
  return absl::StrCat("unknown command '", argument, "'",
                      DidYouMean(argument, commands), "; the commands are ",
                      absl::StrJoin(commands, ", "));
}

bool IsGiven(const std::string& flag, const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& one) {
    return one == flag || absl::StartsWith(one, flag + "=");
  });
}

// Adds the variable's name to an error of a value from the environment.
std::string NameVariable(const CLI::App& command, std::string message,
                         const std::vector<std::string>& arguments) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string& variable = option->get_envname();
    const char* const value =
        variable.empty() ? nullptr : std::getenv(variable.c_str());
    const std::string flag = option->get_name();
    if (value == nullptr || *value == '\0' || IsGiven(flag, arguments)) continue;
    for (const char* const end : {":", " "}) {
      const size_t at = message.find(flag + end);
      if (at != message.npos) return message.replace(at, flag.size(), variable);
    }
  }
  return message;
}

std::string DescribeParseError(CLI::App& root, const CLI::ParseError& error) {
  std::vector<std::string> left_over = root.remaining(true);
  if (!left_over.empty()) return UnknownArgument(root, left_over.front());
  std::string what = error.what();
  constexpr char kNotConverted[] = "Could not convert: ";  // and "--count = ten"
  const size_t equals = what.find(" = ");
  if (absl::StartsWith(what, kNotConverted) && equals != what.npos) {
    const size_t begin = sizeof(kNotConverted) - 1;
    return absl::StrCat(what.substr(begin, equals - begin), ": ",
                        NumberFault(what.substr(equals + 3)));
  }
  if (error.get_name() != "RequiredError") return what;
  CLI::App& command = ChosenCommand(root);
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    std::string name = option->get_name();
    if (option->get_positional()) return absl::StrCat("missing argument: ", name);
    if (option->get_envname().empty()) return name + " is required";
    return absl::StrCat(name, " is required: give ", name, " or set ",
                        option->get_envname());
  }
  return absl::StrCat("a command is required; the commands are ",
                      absl::StrJoin(SubcommandNames(command), ", "));
}

// The library reads 0100 as octal.
std::string CheckDecimal(const std::string& text) {
  const size_t first = text.find_first_not_of("+-");
  const bool octal = first != std::string::npos && first + 1 < text.size() &&
                     text[first] == '0' &&
                     std::isdigit(static_cast<unsigned char>(text[first + 1])) != 0;
  if (!octal) return "";
  return absl::StrCat(Quoted(text), " has a leading 0: leave it out");
}

template <class T>
struct IsInteger : std::is_integral<T> {};
template <class T>
struct IsInteger<std::optional<T>> : IsInteger<T> {};
template <class T>
struct IsInteger<std::vector<T>> : IsInteger<T> {};

// The default as --help shows it; "" = none.
template <class T>
std::string Shown(const T& value) {
  return absl::StrCat(value);
}
template <class T>
std::string Shown(const std::optional<T>& value) {
  return value ? absl::StrCat(*value) : "";
}
template <class T>
std::string Shown(const std::vector<T>& values) {
  return absl::StrJoin(values, ",");
}

void PrintError(const std::string& binary, const std::string& message) {
  // For readers of a JSON log, too.
  if (log_format() == LogFormat::kJson) return LogError(message);
  // If the log is not read, this line would not be either.
  if (!FlushLog()) return;
  std::vector<std::string> lines = absl::StrSplit(message, '\n');
  for (std::string& line : lines) line = EscapeControls(line);
  std::fprintf(stderr, "%s: %s\n", binary.c_str(), absl::StrJoin(lines, "\n").c_str());
}

}  // namespace

std::string NumberFault(const std::string& text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
    return Quoted(text) + " is not a number";
  }
  return Quoted(text) +
         (value == std::floor(value) ? " is out of range" : " is not a whole number");
}

absl::Status UsageError(std::string message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsageUrl, absl::Cord());
  return status;
}

absl::Status EndedBySignal(int signal) {
  absl::Status status = absl::CancelledError("ended by a signal");
  status.SetPayload(kSignalUrl, absl::Cord(std::string(1, static_cast<char>(signal))));
  return status;
}

absl::Status Told(absl::Status error) {
  error.SetPayload(kToldUrl, absl::Cord());
  return error;
}

Flag& Flag::Required() {
  option_->required()->default_str("");
  return *this;
}

Flag& Flag::Between(double least, double most, const std::string& unit) {
  const std::string what = unit.empty() ? "a number" : "a number of " + unit;
  option_->check(CLI::Validator(
      [least, most, what](const std::string& text) -> std::string {
        double value = 0;
        // Written so that NaN fails.
        if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) {
          return "";
        }
        return absl::StrFormat("%s is not %s from %.17g to %.17g", Quoted(text), what,
                               least, most);
      },
      absl::StrFormat("in [%.17g, %.17g]", least, most)));
  return *this;
}

Flag& Flag::OneOf(std::vector<std::string> names) {
  option_->check(CLI::IsMember(std::move(names)));
  return *this;
}

Flag& Flag::WithCommas() {
  option_->delimiter(',');
  return *this;
}

Flag& Flag::Excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

Flag& Flag::Default(const std::string& what) {
  option_->default_str("")->description(
      absl::StrCat(option_->get_description(), "; default: ", what));
  return *this;
}

Flag Command::Add(const std::string& name, FlagTarget target, const std::string& help) {
  return std::visit(
      [&](auto* value) -> Flag {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          return Flag(*app_->add_flag(name, *value, help));
        } else {
          CLI::Option& option = *app_->add_option(name, *value, help);
          if constexpr (IsInteger<Value>::value) option.check(CheckDecimal, "");
          // The library shows neither optional values nor empty ones.
          option.default_str(Shown(*value));
          return Flag(option);
        }
      },
      target);
}

struct CommandLine::Impl {
  std::string binary;
  std::string version;
  CLI::App root;
  std::map<const CLI::App*, CommandBody> bodies;
  std::map<std::string, std::string> renamed;  // by the command's former name

  void Prepare(CLI::App& app, std::vector<std::string> examples) {
    app.formatter(std::make_shared<ExamplesFirst>(std::move(examples)));
    app.option_defaults()->always_capture_default();
    app.set_version_flag("--version", version, "Print the version and exit");
    app.footer(
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 128 + N ended by signal N.");
  }

  void SetEnvironmentNames(CLI::App& app) const {
    for (CLI::Option* option : app.get_options()) {
      bool general = option == app.get_help_ptr() || option == app.get_version_ptr() ||
                     option->check_lname(kHelpAll) ||
                     option->check_lname(kBashCompletion) ||
                     option->check_lname(kFishCompletion);
      if (general || option->get_lnames().empty() || !option->get_envname().empty()) {
        continue;
      }
      option->envname(EnvironmentName(binary, option->get_lnames().front()));
    }
    for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
      SetEnvironmentNames(*sub);
    }
  }

  int RunChosen(const std::vector<std::string>& arguments) {
    CLI::App& command = ChosenCommand(root);
    auto body = bodies.find(&command);
    if (body == bodies.end() || !body->second) {
      PrintError(binary, "nothing to do; see " + binary + " --help");
      return kUsage;
    }
    absl::Status status = body->second();
    if (status.ok()) return 0;
    if (const auto signal = status.GetPayload(kSignalUrl)) {
      return kSignalled + *signal->char_begin();
    }
    if (status.GetPayload(kToldUrl)) return kFailed;
    bool usage = status.GetPayload(kUsageUrl).has_value();
    std::string message =
        NameVariable(command, std::string(status.message()), arguments);
    if (usage) absl::StrAppend(&message, "\nsee ", CommandName(command), " --help");
    PrintError(binary, message);
    return usage ? kUsage : kFailed;
  }

  int ParseAndRun(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const auto now = argc > 1 ? renamed.find(argv[1]) : renamed.end();
    if (now != renamed.end()) {
      PrintError(binary, absl::StrCat("'", now->first, "' is now '", now->second,
                                      "'\nsee ", binary, " ", now->second, " --help"));
      return kUsage;
    }
    try {
      root.parse(argc, argv);
    } catch (const CLI::CallForVersion& call) {
      std::printf("%s\n", call.what());
      return 0;
    } catch (const CLI::Success& call) {
      std::printf("%s", root.help().c_str());
      return 0;
    } catch (const CLI::ParseError& error) {
      const CLI::App& command = ChosenCommand(root);
      PrintError(binary,
                 absl::StrCat(
                     NameVariable(command, DescribeParseError(root, error), arguments),
                     "\nsee ", CommandName(command), " --help"));
      return kUsage;
    }
    return RunChosen(arguments);
  }
};

CommandLine::CommandLine(std::string binary, std::string summary,
                         std::vector<std::string> examples, std::string version)
    : impl_(std::make_unique<Impl>()) {
  impl_->binary = binary;
  impl_->version = std::move(version);
  impl_->root.name(std::move(binary));
  impl_->root.description(std::move(summary));
  impl_->Prepare(impl_->root, std::move(examples));
  impl_->root.add_flag_callback(
      absl::StrCat("--", kHelpAll),
      [this] { throw CLI::CallForVersion(HelpOfAll(impl_->root), 0); },
      "Print this message and that of every command, and exit");
  impl_->root.add_flag_callback(
      absl::StrCat("--", kBashCompletion),
      [this] { throw CLI::CallForVersion(BashCompletion(impl_->root), 0); },
      "Print a completion script for bash and zsh, and exit");
  impl_->root.add_flag_callback(
      absl::StrCat("--", kFishCompletion),
      [this] { throw CLI::CallForVersion(FishCompletion(impl_->root), 0); },
      "Print a completion script for fish and exit");
}

CommandLine::~CommandLine() = default;

Command CommandLine::root() { return Command(impl_->root); }

void CommandLine::SetBody(CommandBody body) {
  impl_->bodies[&impl_->root] = std::move(body);
}

Command CommandLine::AddCommand(const std::string& name, const std::string& summary,
                                std::vector<std::string> examples, CommandBody body,
                                const Command* parent) {
  CLI::App& above = parent == nullptr ? impl_->root : *parent->app_;
  above.require_subcommand(1);
  CLI::App& command = *above.add_subcommand(name, summary);
  impl_->Prepare(command, std::move(examples));
  // With this set, a command reads the environment only if it was chosen: two commands
  // may have options of one name and different types.
  command.parse_complete_callback([] {});
  if (body) impl_->bodies[&command] = std::move(body);
  return Command(command);
}

void CommandLine::AddRenamed(const std::string& before, const std::string& now) {
  impl_->renamed[before] = now;
}

int CommandLine::Run(int argc, char** argv) {
  impl_->SetEnvironmentNames(impl_->root);
  int code;
  try {
    code = impl_->ParseAndRun(argc, argv);
  } catch (const std::exception& error) {
    PrintError(impl_->binary, error.what());
    code = kFailed;
  } catch (...) {
    PrintError(impl_->binary, "unknown exception");
    code = kFailed;
  }
  // A closed reader is not reported; a full disk is.
  if (std::fflush(stdout) != 0 && code == 0) {
    if (errno != EPIPE) PrintError(impl_->binary, "cannot write standard output");
    code = kFailed;
  }
  FlushLog();
  return code;
}

}  // namespace mnemon
