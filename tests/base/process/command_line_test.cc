// SPDX-License-Identifier: MIT
#include "base/process/command_line.h"

#include <stdlib.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

// A binary with two commands that both have --tokens, of different kinds.
class CommandLineTest : public ::testing::Test {
 protected:
  Outcome Run(std::vector<std::string> arguments) {
    CommandLine line("tool", "Does things.", {"tool run --count 3"},
                     "tool 1.2 (commit x)");
    Command run = line.AddCommand("run", "Runs.", {"tool run --count 3  # thrice"},
                                  [&] { return RunBody(); });
    count_ = 1;
    file_.clear();
    sizes_.clear();
    run.Add("--count", &count_, "How often");
    run.Add("--wait", &wait_, "How long, in seconds").Between(0.5, 60, "seconds");
    run.Add("--tokens", &tokens_, "How many");
    run.Add("--file", &file_, "What").Required();
    run.Add("--mode", &mode_, "In which way").OneOf({"fast", "slow"});
    run.Add("--limit", &limit_, "At most");
    run.Add("--grace", &grace_, "Seconds");
    run.Add("--seed,--start", &seed_, "Of the numbers").Default("drawn");
    run.Add("--sizes", &sizes_, "How large").WithCommas();
    Command score =
        line.AddCommand("score", "Scores.", {}, [] { return absl::OkStatus(); });
    score.Add("--tokens", &token_file_, "A file");
    Command drop =
        line.AddCommand("drop", "Drops.", {}, [] { return absl::OkStatus(); });
    drop.Add("names", &names_, "Of what").Required();
    line.AddRenamed("execute", "run");
    arguments.insert(arguments.begin(), "tool");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Outcome outcome;
    outcome.code = line.Run(static_cast<int>(argv.size()), argv.data());
    outcome.out = testing::internal::GetCapturedStdout();
    outcome.err = testing::internal::GetCapturedStderr();
    return outcome;
  }

  absl::Status RunBody() {
    if (file_ == "throw") throw std::runtime_error("library trouble");
    if (file_ == "fail") return absl::NotFoundError("no such thing: \x1b[2J");
    if (file_ == "interrupt") return EndedBySignal(2);
    if (file_ == "told") return Told(absl::NotFoundError("twice"));
    if (file_ == "terminate") return EndedBySignal(15);
    if (file_ == "late") return absl::NotFoundError("--file: not there");
    if (file_ == "usage") return UsageError("--file cannot be usage");
    return absl::OkStatus();
  }

  int count_ = 1;
  double wait_ = 1;
  std::string mode_ = "fast";
  std::optional<int32_t> limit_;
  std::optional<double> grace_ = 2.5;
  std::optional<uint64_t> seed_;
  std::vector<int64_t> sizes_;
  int tokens_ = 0;
  std::string file_;
  std::string token_file_;
  std::vector<std::string> names_;
};

TEST_F(CommandLineTest, ExitCodes) {
  EXPECT_EQ(Run({"run", "--file", "x"}).code, 0);
  EXPECT_EQ(Run({"run", "--file", "fail"}).code, 1);
  EXPECT_EQ(Run({"run", "--file", "throw"}).code, 1);
  EXPECT_EQ(Run({"run", "--file", "usage"}).code, 2);
  EXPECT_EQ(Run({"run"}).code, 2);
  EXPECT_EQ(Run({}).code, 2);
  EXPECT_EQ(Run({"run", "--file", "interrupt"}).code, 130);
  EXPECT_EQ(Run({"run", "--file", "interrupt"}).err, "");
  EXPECT_EQ(Run({"run", "--file", "told"}).code, 1);
  EXPECT_EQ(Run({"run", "--file", "told"}).err, "");
  EXPECT_EQ(Run({"run", "--file", "terminate"}).code, 143);
  EXPECT_EQ(Run({"run", "--file", "terminate"}).err, "");
}

TEST_F(CommandLineTest, ErrorsNameTheFlagAndTheFix) {
  struct Case {
    std::vector<std::string> arguments;
    std::string expected;
  };
  const Case cases[] = {
      {{"run", "--fiel", "x"}, "unknown flag --fiel; did you mean --file?"},
      {{"run", "--fiel=x"}, "unknown flag --fiel; did you mean --file?"},
      {{"run", "--file", "x", "--zzzzzz"}, "unknown flag --zzzzzz\n"},
      {{"--file", "x", "run"}, "--file comes too early: give it after tool run\n"},
      {{"run", "--file", "x", "--count", "ten"},
       "tool: --count: 'ten' is not a number\n"},
      {{"run", "--file", "x", "--count", "1.5"},
       "tool: --count: '1.5' is not a whole number\n"},
      {{"run", "--file", "x", "--count", "99999999999"},
       "tool: --count: '99999999999' is out of range\n"},
      {{"run", "--file", "x", "--grace", "soon"}, "--grace: 'soon' is not a number\n"},
      {{"execute", "--file", "x"}, "tool: 'execute' is now 'run'\nsee tool run --help"},
      {{"execute", "--help"}, "tool: 'execute' is now 'run'\n"},
      {{"run", "--file", "x", "--wait", "10s"},
       "--wait: '10s' is not a number of seconds from 0.5 to 60\n"},
      {{"run", "--file", "x", "--wait", "61"},
       "--wait: '61' is not a number of seconds"},
      {{"run", "--file"}, "--file"},
      {{"run"}, "--file is required: give --file or set MNEMON_TOOL_FILE"},
      {{"drop"}, "tool: missing argument: names\n"},
      {{"runn"}, "unknown command 'runn'; did you mean run?"},
      {{}, "a command is required; the commands are run, score, drop"},
      {{"run", "--file", "x", "stray"}, "unexpected argument 'stray'"},
  };
  for (const Case& c : cases) {
    Outcome outcome = Run(c.arguments);
    EXPECT_EQ(outcome.code, 2) << c.expected;
    EXPECT_THAT(outcome.err, HasSubstr(c.expected));
    EXPECT_THAT(outcome.err, HasSubstr("--help"));
    EXPECT_EQ(outcome.err.rfind("tool: ", 0), 0u) << outcome.err;
  }
}

TEST_F(CommandLineTest, LibraryExceptionsAndControlCharactersAreTamed) {
  EXPECT_THAT(Run({"run", "--file", "throw"}).err, HasSubstr("library trouble"));
  EXPECT_THAT(Run({"run", "--file", "fail"}).err, HasSubstr("no such thing: \\x1b[2J"));
}

TEST_F(CommandLineTest, HelpShowsExamplesBeforeOptionsWithDefaultAndEnvironment) {
  Outcome outcome = Run({"run", "--help"});
  EXPECT_EQ(outcome.code, 0);
  size_t example = outcome.out.find("tool run --count 3  # thrice");
  size_t option = outcome.out.find("--count INT=1 (Env:MNEMON_TOOL_COUNT)");
  ASSERT_NE(example, std::string::npos) << outcome.out;
  ASSERT_NE(option, std::string::npos) << outcome.out;
  EXPECT_LT(example, option);
  EXPECT_THAT(outcome.out, HasSubstr("Exit codes"));
  EXPECT_EQ(Run({"--help"}).code, 0);
}

TEST_F(CommandLineTest, HelpShowsEveryDefault) {
  const std::string help = Run({"run", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("--grace FLOAT=2.5 (Env:"));
  EXPECT_THAT(help, HasSubstr("--mode TEXT:{fast,slow}=fast (Env:"));
  EXPECT_THAT(help, HasSubstr("--seed,--start UINT (Env:MNEMON_TOOL_SEED)"));
  EXPECT_THAT(help, HasSubstr("Of the numbers; default: drawn\n"));
  EXPECT_THAT(help, HasSubstr("--file TEXT REQUIRED"));
  EXPECT_THAT(help, HasSubstr("--sizes INT ..."));
}

TEST_F(CommandLineTest, VersionEverywhere) {
  EXPECT_EQ(Run({"--version"}).out, "tool 1.2 (commit x)\n");
  EXPECT_EQ(Run({"run", "--version"}).out, "tool 1.2 (commit x)\n");
}

TEST_F(CommandLineTest, FlagOverEnvironmentOverDefault) {
  setenv("MNEMON_TOOL_FILE", "fail", 1);
  EXPECT_EQ(Run({"run"}).code, 1);
  EXPECT_EQ(Run({"run", "--file", "x"}).code, 0);
  unsetenv("MNEMON_TOOL_FILE");
  EXPECT_EQ(Run({"run"}).code, 2);
}

TEST_F(CommandLineTest, ErrorsOfTheEnvironmentNameTheVariable) {
  setenv("MNEMON_TOOL_WAIT", "61", 1);
  EXPECT_THAT(Run({"run", "--file", "x"}).err,
              HasSubstr("tool: MNEMON_TOOL_WAIT: '61' is not a number of seconds"));
  setenv("MNEMON_TOOL_WAIT", "1", 1);
  EXPECT_THAT(Run({"run", "--file", "x", "--count", "ten"}).err, HasSubstr("--count"));
  unsetenv("MNEMON_TOOL_WAIT");
  // Found by the command itself.
  setenv("MNEMON_TOOL_FILE", "usage", 1);
  EXPECT_THAT(Run({"run"}).err, HasSubstr("tool: MNEMON_TOOL_FILE cannot be usage\n"));
  EXPECT_THAT(Run({"run", "--file=usage"}).err, HasSubstr("--file cannot be usage"));
  setenv("MNEMON_TOOL_FILE", "late", 1);
  EXPECT_EQ(Run({"run"}).err, "tool: MNEMON_TOOL_FILE: not there\n");
  unsetenv("MNEMON_TOOL_FILE");
}

TEST_F(CommandLineTest, AnEmptyVariableIsNotSet) {
  setenv("MNEMON_TOOL_COUNT", "", 1);
  setenv("MNEMON_TOOL_MODE", "", 1);
  const Outcome outcome = Run({"run", "--file", "x"});
  unsetenv("MNEMON_TOOL_COUNT");
  unsetenv("MNEMON_TOOL_MODE");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count_, 1);
  EXPECT_EQ(mode_, "fast");
}

TEST_F(CommandLineTest, NoIntegerIsReadAsOctal) {
  for (const std::string text : {"0100", "-0100", "08", "00", "+01"}) {
    const std::string expected = "'" + text + "' has a leading 0: leave it out";
    for (const std::string flag : {"--count", "--limit", "--sizes"}) {
      const Outcome outcome = Run({"run", "--file", "x", flag + "=" + text});
      EXPECT_EQ(outcome.code, 2) << flag << text;
      EXPECT_THAT(outcome.err, HasSubstr(flag + ": " + expected));
    }
    EXPECT_EQ(Run({"run", "--file", "x", "--sizes", "1," + text}).code, 2) << text;
    setenv("MNEMON_TOOL_COUNT", text.c_str(), 1);
    const Outcome outcome = Run({"run", "--file", "x"});
    unsetenv("MNEMON_TOOL_COUNT");
    EXPECT_EQ(outcome.code, 2) << text;
    EXPECT_THAT(outcome.err, HasSubstr("tool: MNEMON_TOOL_COUNT: " + expected));
  }
  EXPECT_EQ(Run({"run", "--file", "x", "--count", "100", "--sizes", "0,10"}).code, 0);
  EXPECT_EQ(count_, 100);
  EXPECT_EQ(sizes_, (std::vector<int64_t>{0, 10}));
  EXPECT_EQ(Run({"run", "--file", "x", "--count", "0", "--limit=-1"}).code, 0);
  EXPECT_EQ(count_, 0);
  // What is not an integer has no octal form.
  EXPECT_EQ(Run({"run", "--file", "010", "--wait", "010"}).code, 0);
  EXPECT_EQ(wait_, 10);
  EXPECT_EQ(file_, "010");
}

TEST_F(CommandLineTest, OnlyTheChosenCommandReadsTheEnvironment) {
  setenv("MNEMON_TOOL_TOKENS", "in.safetensors", 1);
  EXPECT_EQ(Run({"score"}).code, 0);
  EXPECT_EQ(token_file_, "in.safetensors");
  Outcome outcome = Run({"run", "--file", "x"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("MNEMON_TOOL_TOKENS"));
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("--tokens")));
  outcome = Run({"run", "--file", "x", "--tokens", "y"});
  EXPECT_THAT(outcome.err, HasSubstr("--tokens"));
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("MNEMON_TOOL_TOKENS")));
  unsetenv("MNEMON_TOOL_TOKENS");
}

TEST_F(CommandLineTest, BinaryWithoutCommands) {
  int port = 0;
  CommandLine line("server", "Serves.", {}, "server 1");
  line.root().Add("--port", &port, "Where");
  line.SetBody(
      [&] { return port == 7 ? absl::OkStatus() : absl::InternalError("port"); });
  std::vector<std::string> arguments = {"server", "--port", "7"};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  EXPECT_EQ(line.Run(3, argv.data()), 0);
}

TEST_F(CommandLineTest, HelpOfAllIsThatOfEachCommand) {
  std::string each;
  for (const char* const command : {"", "run", "score", "drop"}) {
    std::vector<std::string> words = {"--help"};
    if (*command != '\0') words.insert(words.begin(), command);
    each += std::string("== tool") + (*command == '\0' ? "" : " ") + command + "\n\n" +
            Run(words).out + "\n";
  }
  const Outcome all = Run({"--help-all"});
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.out, each + "\n");
}

// What bash offers after `words`, the last of which is being typed.
std::string Completed(const std::string& script, const std::string& words, int last) {
  const TemporaryDirectory directory;
  const std::string file = directory.Path("completion.bash");
  std::ofstream(file) << script;
  const std::string command = "bash --norc -c 'source " + file + "; COMP_WORDS=(" +
                              words + "); COMP_CWORD=" + std::to_string(last) +
                              "; _tool; echo ${COMPREPLY[*]}'";
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c; (c = fgetc(pipe)) != EOF;) text.push_back(static_cast<char>(c));
  EXPECT_EQ(pclose(pipe), 0) << script;
  return text;
}

TEST_F(CommandLineTest, CompletesInBash) {
  const Outcome printed = Run({"--bash-completion"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  const std::string& script = printed.out;
  EXPECT_EQ(Completed(script, "tool \"\"", 1),
            "run score drop --help --version --help-all --bash-completion "
            "--fish-completion\n");
  EXPECT_EQ(Completed(script, "tool r", 1), "run\n");
  EXPECT_EQ(Completed(script, "tool run --", 2),
            "--help --version --count --wait --tokens --file --mode --limit "
            "--grace --seed --start --sizes\n");
  EXPECT_EQ(Completed(script, "tool score --t", 2), "--tokens\n");
  EXPECT_EQ(Completed(script, "tool run --count 3 --fi", 4), "--file\n");
  EXPECT_EQ(Completed(script, "tool run --mode \"\"", 3), "fast slow\n");
  EXPECT_EQ(Completed(script, "tool run --mode s", 3), "slow\n");
  EXPECT_EQ(Completed(script, "tool run --file /usr/bi", 3), "/usr/bin\n");
  EXPECT_EQ(Completed(script, "tool run --verbose --m", 3), "--mode\n");
}

}  // namespace
}  // namespace mnemon
