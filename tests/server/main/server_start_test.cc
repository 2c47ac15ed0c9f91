// SPDX-License-Identifier: MIT
// The start of mnemon-server: what it refuses, how soon it serves, what it loads.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/process/child_process.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/patience.h"
#include "tests/server/main/server_binary.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ServerBinary, SigtermDuringTheStartEndsCleanly) {
  auto server = Server({"--checkpoint", Path("tiny"), "--listen", "127.0.0.1:0"});
  // Set once main has taken over the signals.
  bool caught = false;
  Eventually([&] {
    std::ifstream status(StrCat("/proc/", server->pid(), "/status"));
    const std::string text{std::istreambuf_iterator<char>(status), {}};
    const size_t at = text.find("SigCgt:");
    caught = at != text.npos && text.find("mnemon-server") != text.npos &&
             (std::stoull(text.substr(at + 7), nullptr, 16) >> (SIGTERM - 1) & 1) == 1;
    return caught || server->Wait(milliseconds(0));
  });
  ASSERT_TRUE(caught) << server->err();
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0) << server->err();
  EXPECT_THAT(server->err(), HasSubstr("stopped"));
}

TEST_F(ServerBinary, WrongUsageIsExitCodeTwo) {
  const std::string tiny = Path("tiny");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--checkpoint"},
      {{"--checkpoint", tiny, "--window", "5"}, "--window"},
      {{"--checkpoint", tiny, "--device", "tpu"}, "--device"},
      {{"--checkpoint", tiny, "--queue", "-1"},
       "--queue: '-1' is not a number from 0 to 1048576\n"},
      {{"--checkpoint", tiny, "--rate", "-1"}, "--rate"},
      {{"--checkpoint", tiny, "--reflection", "maybe"}, "--reflection"},
      {{"--checkpoint", tiny, "--grace", "nan"}, "--grace"},
      {{"--checkpoint", tiny, "--session-ttl", "10s"},
       "--session-ttl: '10s' is not a number of seconds from 0 to 3000000000\n"},
      {{"--checkpoint", tiny, "--checkpoint", tiny}, "default"},
      {{"--checkpoint", tiny, "--listen", "nowhere"}, "--listen: an address"},
      {{"--checkpoint", tiny, "--http", "nowhere"}, "--http: an address"},
      {{"--checkpoint", tiny, "--log-level", "loud"}, "--log-level"},
      {{"--checkpoint", tiny, "--log-format", "xml"}, "--log-format"},
  };
  // All at once: most of their time goes to loading libraries.
  std::vector<std::unique_ptr<ChildProcess>> servers;
  for (const auto& [flags, expected] : cases) servers.push_back(Server(flags));
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(servers[i]->Wait(), 2) << cases[i].second << servers[i]->err();
    EXPECT_THAT(servers[i]->err(), HasSubstr(cases[i].second));
  }
}

TEST_F(ServerBinary, FailedStartIsExitCodeOneAndOneError) {
  std::filesystem::create_directories(Path("empty"));
  std::filesystem::copy(Path("tiny"), Path("broken"));
  std::ofstream(Path("broken/model.safetensors"), std::ios::app) << "x";
  auto other = Listening();
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--checkpoint", Path("absent")}, "absent"},
      {{"--checkpoint", Path("empty")}, "config.json"},
      {{"--checkpoint", Path("broken")}, "model.safetensors"},
      {{"--checkpoint", Path("tiny"), "--listen", "127.0.0.1:" + port_}, "in use"},
      {{"--checkpoint", Path("tiny"), "--http", StrCat("127.0.0.1:", http_port_)},
       "in use"},
      {{"--checkpoint", Path("segment"), "--state-bytes", "100"}, "state_bytes"},
      {{"--checkpoint", Path("tiny"), "--memory", "100000000"},
       "--memory is 100000000"},
      {{"--checkpoint", Path("tiny"), "--listen", "127.0.0.1:0", "--http",
        "127.0.0.1:0", "--port-file", Path("absent/port")},
       "absent"},
  };
  std::vector<std::unique_ptr<ChildProcess>> servers;
  for (const auto& [flags, expected] : cases) servers.push_back(Server(flags));
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(servers[i]->Wait(), 1) << cases[i].second << servers[i]->err();
    const std::string error = servers[i]->err();
    const size_t at = error.find("mnemon-server: ");
    ASSERT_NE(at, std::string::npos) << error;
    EXPECT_THAT(error.substr(at), HasSubstr(cases[i].second));
    EXPECT_EQ(std::count(error.begin() + at, error.end(), '\n'), 1) << error;
  }
}

// A number of /proc/<pid>/status, in kB.
int64_t StatusKilobytes(pid_t pid, const std::string& key) {
  std::ifstream status(StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1));
  }
  return -1;
}

std::string Mapped(pid_t pid) {
  std::ifstream maps(StrCat("/proc/", pid, "/maps"));
  return {std::istreambuf_iterator<char>(maps), {}};
}

// Three times the bar of a quiet machine: 80 MB beside the weights.
TEST_F(ServerBinary, StartsSmallWithoutLibtorch) {
  auto server = Listening();
  const std::string maps = Mapped(server->pid());
  EXPECT_THAT(maps, HasSubstr("mnemon-server"));
  for (const char* library : {"libtorch", "libc10", "libmnemon_sequence", "blas"}) {
    EXPECT_THAT(maps, Not(HasSubstr(library)));
  }
  if (std::getenv("MNEMON_SANITIZED") == nullptr) {
    EXPECT_LT(StatusKilobytes(server->pid(), "VmRSS"), 3 * 80 * 1000);
  }
}

TEST_F(ServerBinary, LoadsLibtorchForTheSequenceForm) {
  auto server = Listening({"--decoder", "sequence"});
  EXPECT_THAT(Mapped(server->pid()), HasSubstr("libmnemon_sequence.so"));
  EXPECT_EQ(Mnemon({"generate", "--prompt", "abc", "--max-tokens", "5"}).size() > 0,
            true);
}

// A copy of the program alone, as an installation without the module.
TEST_F(ServerBinary, NamesTheModuleThatItMisses) {
  std::filesystem::create_directories(Path("alone/bin"));
  const std::string program = Path("alone/bin/mnemon-server");
  std::filesystem::copy(StrCat(MNEMON_BINARY_DIR, "/bin/mnemon-server"), program,
                        std::filesystem::copy_options::overwrite_existing);
  const auto run = [&](const std::string& decoder) {
    ChildProcess server(
        dir_, {program, "--checkpoint", Path("tiny"), "--listen", "127.0.0.1:0",
               "--decoder", decoder, "--http", "", "--port-file", Path("absent/port")});
    EXPECT_EQ(server.Wait(), 1);
    return server.err();
  };
  EXPECT_THAT(run("sequence"),
              AllOf(HasSubstr("alone/bin/libmnemon_sequence.so"),
                    HasSubstr("alone/lib/mnemon/libmnemon_sequence.so"),
                    HasSubstr("--decoder step")));
  EXPECT_THAT(run("step"), HasSubstr("absent"));
  std::filesystem::create_directories(Path("alone/lib/mnemon"));
  std::ofstream(Path("alone/lib/mnemon/libmnemon_sequence.so")) << "no library";
  EXPECT_THAT(run("sequence"), HasSubstr("cannot be loaded"));
}

}  // namespace
}  // namespace mnemon
