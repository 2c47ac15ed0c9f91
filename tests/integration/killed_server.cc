// SPDX-License-Identifier: MIT
#include "tests/integration/killed_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/strings.h"
#include "client/client.h"
#include "tests/fakes/patience.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Below the ports that the system gives away: while the server is down, a client that
// tries to reach one of those may be given the same one and so reach itself.
int FreePort() {
  std::random_device source;
  for (int tries = 0; tries < 1000; ++tries) {
    const int port = std::uniform_int_distribution(20000, 32000)(source);
    const Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
      return port;
    }
  }
  MNEMON_CHECK(false);  // no port is free
}

}  // namespace

KilledServer::KilledServer(std::string directory, std::vector<std::string> flags)
    : directory_(std::move(directory)),
      address_(StrCat("127.0.0.1:", FreePort())),
      command_(std::move(flags)) {
  command_.insert(command_.begin(), StrCat(MNEMON_BINARY_DIR, "/bin/mnemon-server"));
  command_.insert(command_.end(), {"--listen", address_, "--port-file",
                                   directory_ + "/port", "--http", "127.0.0.1:0"});
}

absl::StatusOr<std::chrono::nanoseconds> KilledServer::Start() {
  MNEMON_CHECK(!process_);
  const std::string port = directory_ + "/port";
  std::filesystem::remove(port);
  const auto begin = steady_clock::now();
  process_ = std::make_unique<ChildProcess>(directory_, command_);
  while (steady_clock::now() - begin < kPatience) {
    if (process_->Wait(milliseconds(1))) break;
    if (!std::filesystem::exists(port)) continue;
    const auto client = client::Client::Connect(
        {.server = address_, .retry = {.tries = 1, .limit = {}}});
    if (client->CheckHealth("").ok()) return steady_clock::now() - begin;
  }
  return absl::UnavailableError(StrCat("the server does not serve: ", process_->err()));
}

void KilledServer::Kill() {
  MNEMON_CHECK(process_);
  process_->Signal(SIGKILL);
  process_->Wait();
  process_.reset();
}

}  // namespace mnemon
