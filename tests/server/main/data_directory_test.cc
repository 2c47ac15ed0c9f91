// SPDX-License-Identifier: MIT
// mnemon-server on a directory of sessions that another one has or had, and on a disk
// that takes no more.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/process/child_process.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/http_get.h"
#include "tests/fakes/patience.h"
#include "tests/server/main/server_binary.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DataDirectory : public ServerBinary {
 protected:
  // One that is not waited for.
  std::unique_ptr<ChildProcess> Starting(const std::string& data) {
    return Server({"--checkpoint", Path("tiny"), "--listen", "127.0.0.1:0", "--threads",
                   "1", "--http", "", "--data-dir", data});
  }

  static void Kill(ChildProcess& server) {
    server.Signal(SIGKILL);
    ASSERT_EQ(server.Wait(), 128 + SIGKILL);
  }

  // What a turn of the session gives.
  std::string Turn(const std::string& session, const std::string& prompt,
                   const std::string& max_tokens, int expected = 0) {
    return Mnemon({"generate", "--session", session, "--prompt", prompt, "--max-tokens",
                   max_tokens, "--temperature", "1", "--seed", "7"},
                  expected);
  }

  static int64_t Files(const std::string& data) {
    return std::distance(std::filesystem::recursive_directory_iterator(data), {});
  }

  static int64_t Bytes(const std::string& data) {
    int64_t bytes = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(data)) {
      if (file.is_regular_file()) bytes += static_cast<int64_t>(file.file_size());
    }
    return bytes;
  }
};

TEST_F(DataDirectory, HasOneServerAtATime) {
  const std::string data = Path("owned");
  auto owner = Listening({"--data-dir", data});
  EXPECT_TRUE(Says(*owner, data + ": 0 sessions restored in ")) << owner->err();
  Mnemon({"sessions", "create", "anna"});
  Turn("anna", "abc", "20");
  for (int i = 0; i < 2; ++i) {
    auto second = Starting(data);
    EXPECT_EQ(second->Wait(), 1) << second->err();
    EXPECT_THAT(second->err(),
                AllOf(HasSubstr(data),
                      HasSubstr(StrCat("is in use by process ", owner->pid(), "\n"))));
  }
  const std::string next = Turn("anna", "d", "20");
  Mnemon({"sessions", "rewind", "anna", "--token-count", "23"});

  // Whose lock is left lying there.
  Kill(*owner);
  ASSERT_TRUE(std::filesystem::exists(data + "/LOCK"));
  auto heir = Listening({"--data-dir", data});
  EXPECT_TRUE(Says(*heir, data + ": 1 session restored in ")) << heir->err();
  EXPECT_EQ(Turn("anna", "d", "20"), next);
}

TEST_F(DataDirectory, OutlivesALoopOfCrashesWhileItIsRecovered) {
  const std::string data = Path("looped");
  const std::vector<std::string> ids = {"anna", "bert", "cleo"};
  std::vector<std::string> continued;
  {
    auto server = Listening({"--data-dir", data});
    Mnemon({"sessions", "create", "anna", "bert", "--durability", "turn"});
    Mnemon({"sessions", "create", "cleo", "--durability", "always"});
    for (const std::string& id : ids) {
      Turn(id, id, "200");
      continued.push_back(Turn(id, "go on", "30"));
      Mnemon({"sessions", "rewind", id, "--token-count", "204"});
    }
    Kill(*server);
  }
  const auto begin = steady_clock::now();
  Kill(*Listening({"--data-dir", data}));
  const auto start = steady_clock::now() - begin;
  const int64_t files = Files(data), bytes = Bytes(data);
  std::mt19937_64 random(11);
  for (int round = 0; round < 20; ++round) {
    auto server = Starting(data);
    const double share = std::uniform_real_distribution(0.0, 1.2)(random);
    std::this_thread::sleep_for(start * share);  // the moment is what is drawn
    ASSERT_EQ(server->Wait(milliseconds(0)), std::nullopt) << server->err();
    Kill(*server);
  }
  auto server = Listening({"--data-dir", data});
  EXPECT_LE(Files(data), files + 32);  // tables are merged by and by
  EXPECT_LE(Bytes(data), bytes + 500'000);
  for (size_t i = 0; i < ids.size(); ++i) {
    Mnemon({"sessions", "verify", ids[i], "--replay"});
    EXPECT_EQ(Turn(ids[i], "go on", "30"), continued[i]) << ids[i];
  }
}

// As with a quota: no file may become longer, and then it may again. No restart.
TEST_F(DataDirectory, ServesOnWhenNothingCanBeStored) {
  auto server = Listening({"--data-dir", Path("limited")});
  Mnemon({"sessions", "create", "anna"});
  Mnemon({"sessions", "create", "nina", "--durability", "none"});
  Turn("anna", "abc", "20");
  rlimit before = {};
  ASSERT_EQ(prlimit(server->pid(), RLIMIT_FSIZE, nullptr, &before), 0);
  rlimit less = before;
  less.rlim_cur = 100'000;
  ASSERT_EQ(prlimit(server->pid(), RLIMIT_FSIZE, &less, nullptr), 0);
  const auto healthy = [&] {
    const std::string metrics = HttpGet(http_port_, "/metrics").body;
    return metrics.find("\nmnemon_store_healthy 1\n") != metrics.npos;
  };
  // Each token takes four bytes in the journal.
  std::string failure;
  for (int i = 0; i < 20 && failure.empty(); ++i) {
    auto turn = Client(
        {"generate", "--session", "anna", "--prompt", "d", "--max-tokens", "8000"});
    if (turn->Wait() != 0) failure = turn->err();
  }
  EXPECT_THAT(failure, HasSubstr("STORE_FULL"));
  EXPECT_FALSE(healthy());
  EXPECT_THAT(Turn("anna", "e", "5", 1), HasSubstr("STORE_FULL"));
  EXPECT_FALSE(Turn("nina", "abc", "20").empty());

  ASSERT_EQ(prlimit(server->pid(), RLIMIT_FSIZE, &before, nullptr), 0);
  EXPECT_TRUE(Eventually(healthy));
  EXPECT_FALSE(Turn("anna", "f", "30").empty());
  const auto tokens = [&] {
    const std::string found = Mnemon({"sessions", "verify", "anna", "--replay"});
    const size_t at = std::min(found.find("tokens "), found.size());
    return found.substr(at, found.find('\n', at) - at);
  };
  const std::string stored = tokens();
  EXPECT_THAT(stored, HasSubstr("tokens"));
  Kill(*server);
  server = Listening({"--data-dir", Path("limited")});
  EXPECT_EQ(tokens(), stored);
  EXPECT_FALSE(Turn("anna", "g", "5").empty());
  EXPECT_THAT(Mnemon({"sessions", "get", "nina"}, 1), HasSubstr("SESSION_NOT_FOUND"));
}

}  // namespace
}  // namespace mnemon
