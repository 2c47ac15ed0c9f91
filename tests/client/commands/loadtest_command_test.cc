// SPDX-License-Identifier: MIT
// What mnemon loadtest prints and returns, run inside the process.
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/files/json.h"
#include "base/log.h"
#include "client/commands/commands.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/client/load/timed_server.h"

namespace mnemon::client {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

struct LoadtestRan {
  int code;
  std::string out;
  std::string err;
};

int RunLoadtest(const std::string& server, std::vector<std::string> words) {
  words.insert(words.begin(), {"mnemon", "loadtest", "--server", server});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  CommandLine line("mnemon", "", {}, "");
  AddLoadtestCommand(line);
  return line.Run(static_cast<int>(arguments.size()), arguments.data());
}

LoadtestRan Loadtest(const std::string& server, const std::vector<std::string>& words) {
  SetLogLevel(LogLevel::kError);  // the server's
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  LoadtestRan ran;
  ran.code = RunLoadtest(server, words);
  ran.out = testing::internal::GetCapturedStdout();
  ran.err = testing::internal::GetCapturedStderr();
  SetLogLevel(LogLevel::kInfo);
  return ran;
}

TEST(LoadtestCommand, PrintsATable) {
  const TimedServer server;
  const LoadtestRan ran =
      Loadtest(server.address,
               {"--concurrency", "2", "--requests", "5", "--prompt-tokens", "2-6",
                "--max-tokens", "3", "--sessions", "2", "--goodput", "e2e=1000s"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr("timed at 127.0.0.1:"));
  EXPECT_THAT(ran.out, HasSubstr("closed loop, 2 callers, 2 sessions; prompts of 2-6"));
  EXPECT_THAT(ran.out, HasSubstr("completed 5, refused 0, failed 0, unfinished 0"));
  EXPECT_THAT(ran.out, HasSubstr("5 calls within e2e 1e+06 ms"));
  for (const char* const row : {"\nttft ", "\nitl ", "\ntpot ", "\ne2e ", "\nqueue "}) {
    EXPECT_THAT(ran.out, HasSubstr(row));
  }
  EXPECT_THAT(*server.NewClient()->ListSessions(), SizeIs(0));
}

// Every key of `json` stands in `page` as code.
void ExpectDocumented(const nlohmann::json& json, const std::string& page) {
  if (json.is_array()) {
    for (const auto& one : json) ExpectDocumented(one, page);
  }
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) {
    EXPECT_THAT(page, HasSubstr("`" + key + "`"));
    ExpectDocumented(value, page);
  }
}

TEST(LoadtestCommand, PrintsJsonOfDocumentedKeys) {
  std::ifstream file(MNEMON_SOURCE_DIR "/docs/loadtest.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  // Ten of twelve concurrent calls are refused.
  const TimedServer server({.step = std::chrono::milliseconds(20),
                            .engine = {.running = 1, .max_queue = 1}});
  const LoadtestRan ran =
      Loadtest(server.address, {"--rate", "400", "--requests", "60", "--prompt-tokens",
                                "4", "--max-tokens", "3", "--sessions", "12", "--rest",
                                "0.01", "--max-lateness", "1000s", "--goodput",
                                "ttft=100s,itl=100s,tpot=100s,e2e=100s", "--json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, SizeIs(ran.out.find('\n') + 1));
  const auto json = ParseJson(ran.out, "the report");
  ASSERT_TRUE(json.ok()) << json.status() << ran.out;
  ExpectDocumented(*json, page);
  const nlohmann::json& calls = (*json)["calls"];
  EXPECT_EQ(calls["completed"].get<int>() + calls["refused"].get<int>(), 60);
  EXPECT_GT(calls["refused"], 0);
  ASSERT_THAT((*json)["errors"], SizeIs(1));
  EXPECT_EQ((*json)["loop"], "open");
  EXPECT_EQ((*json)["rate"], 400);
  EXPECT_EQ((*json)["valid"], true);
  EXPECT_EQ((*json)["goodput"]["calls"], calls["completed"]);
  EXPECT_EQ((*json)["errors"][0]["code"], "RESOURCE_EXHAUSTED");
  for (const char* const times :
       {"ttft_seconds", "itl_seconds", "tpot_seconds", "e2e_seconds", "queue_seconds",
        "lateness_seconds", "rested_ttft_seconds"}) {
    ASSERT_TRUE(json->contains(times)) << times;
    EXPECT_THAT((*json)[times], SizeIs(7)) << times;
  }
}

TEST(LoadtestCommand, AWrongFlagIsNamed) {
  const TimedServer server({.append_capacity = 64});
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--concurrency N"},
      {{"--concurrency", "1", "--rate", "1"}, "--rate"},
      {{"--concurrency", "0"}, "--concurrency"},
      {{"--rate", "nan"}, "--rate"},
      {{"--rate", "1", "--requests", "5", "--seconds", "5"}, "--seconds"},
      {{"--rate", "1", "--prompt-tokens", "9-8"}, "--prompt-tokens: '9-8'"},
      {{"--rate", "1", "--max-tokens", "0"}, "--max-tokens: '0'"},
      {{"--rate", "1", "--goodput", "ttft=5"}, "--goodput: '5'"},
      {{"--rate", "1", "--max-lateness", "x"}, "--max-lateness: 'x'"},
      {{"--rate", "1", "--rest", "1"}, "--rest: needs --sessions"},
      {{"--concurrency", "3", "--sessions", "2"},
       "--sessions: 3 callers need as many, not 2"},
      {{"--rate", "1", "--model", "other"}, "--model: give one of the server's models"},
      {{"--rate", "1", "--prompt-tokens", "60", "--max-tokens", "5"},
       "--prompt-tokens and --max-tokens: 65 tokens"},
  };
  for (const auto& [words, named] : cases) {
    const LoadtestRan ran = Loadtest(server.address, words);
    EXPECT_EQ(ran.code, 2) << named << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(named));
    EXPECT_EQ(ran.out, "");
  }
}

TEST(LoadtestCommand, FiguresOfALateClientAreVoidAndFail) {
  const TimedServer server;
  const LoadtestRan ran =
      Loadtest(server.address, {"--rate", "500", "--requests", "20", "--prompt-tokens",
                                "4", "--max-tokens", "1", "--max-lateness", "0.001us"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("completed 20"));
  EXPECT_THAT(ran.err, HasSubstr("the figures are void: the client did not keep up"));
}

TEST(LoadtestCommand, WithoutAServerItFails) {
  std::string address;
  {
    const TimedServer server;
    address = server.address;
  }
  const LoadtestRan ran = Loadtest(address, {"--concurrency", "1"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr(address));
}

TEST(LoadtestCommand, AServerThatGoesLeavesFiguresAndFails) {
  TimedServer server({.step = std::chrono::milliseconds(1)});
  std::thread end([&] {
    while (server.engine->Stats().tokens_generated < 50) std::this_thread::yield();
    server.server.reset();
  });
  const LoadtestRan ran = Loadtest(
      server.address, {"--concurrency", "2", "--prompt-tokens", "4", "--max-tokens",
                       "3", "--warmup", "0", "--seconds", "20"});
  end.join();
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("\ngone "));
  EXPECT_THAT(ran.err, HasSubstr("UNAVAILABLE"));
}

// Signals are a matter of the whole process: in a child of its own.
TEST(LoadtestCommandDeathTest, CtrlCLeavesFiguresAndNoSession) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        alarm(600);
        const TimedServer server({.step = std::chrono::milliseconds(5)});
        std::thread interrupt([&] {
          while (server.engine->Stats().tokens_generated < 20) {
            std::this_thread::yield();
          }
          kill(getpid(), SIGINT);
        });
        testing::internal::CaptureStdout();
        const int code =
            RunLoadtest(server.address, {"--concurrency", "2", "--sessions", "4",
                                         "--seconds", "600", "--warmup", "0"});
        const std::string out = testing::internal::GetCapturedStdout();
        interrupt.join();
        const bool figures = out.find("\nstopped ") != std::string::npos &&
                             out.find("unfinished 2") != std::string::npos;
        const bool none = server.NewClient()->ListSessions()->empty();
        _exit(code == 128 + SIGINT && figures && none ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace mnemon::client
