// SPDX-License-Identifier: MIT
#include "bench/serving/test_server.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon::serving {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kTestServerStart{300};
constexpr std::chrono::seconds kTestServerEnd{2};

int ReadPort(const std::string& path) {
  int port = 0;
  std::ifstream(path) >> port;
  return port;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TestServer>> TestServer::Start(
    const std::string& binary, const std::vector<std::string>& flags,
    const std::string& directory, const StartOptions& options) {
  const std::string port = directory + "/port", http = directory + "/http_port";
  std::filesystem::remove(port);
  std::filesystem::remove(http);
  std::vector<std::string> words = options.launcher;
  words.insert(words.end(),
               {binary, "--listen", "127.0.0.1:0", "--port-file", port, "--http",
                "127.0.0.1:0", "--http-port-file", http, "--grace", options.grace});
  words.insert(words.end(), flags.begin(), flags.end());
  const auto begin = steady_clock::now();
  std::unique_ptr<TestServer> server(new TestServer(directory, words));
  while ((server->port_ = ReadPort(port)) == 0) {
    if (server->child_.Wait(std::chrono::milliseconds(2)) ||
        steady_clock::now() - begin > kTestServerStart) {
      return absl::UnavailableError(
          StrCat(binary, " does not listen: ", server->child_.err()));
    }
  }
  server->start_time_ = steady_clock::now() - begin;
  server->http_port_ = ReadPort(http);
  return server;
}

TestServer::~TestServer() {
  child_.Signal(SIGTERM);
  child_.Wait(kTestServerEnd);
}

std::optional<int> TestServer::Stop(std::chrono::milliseconds patience) {
  child_.Signal(SIGTERM);
  return child_.Wait(patience);
}

void TestServer::Kill() {
  child_.Signal(SIGKILL);
  child_.Wait(kTestServerEnd);
}

absl::StatusOr<bool> TakesFlag(const std::string& binary, const std::string& flag,
                               const std::string& directory) {
  MNEMON_ASSIGN_OR_RETURN(
      const std::string help,
      RunToEnd(directory, {binary, "--help"}, std::chrono::seconds(300)));
  return help.find(flag + " ") != std::string::npos;
}

}  // namespace mnemon::serving
