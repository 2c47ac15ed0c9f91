// SPDX-License-Identifier: MIT
#include "client/client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/error.h"
#include "client/chat/line_reader.h"
#include "client/terminal/interrupts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/patience.h"

namespace mnemon::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A port that accepts connections into its backlog and never answers.
class SilentPort {
 public:
  explicit SilentPort(bool listening) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    if (listening) {
      EXPECT_EQ(listen(fd_, 16), 0);
    }
    socklen_t size = sizeof(address);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~SilentPort() { close(fd_); }
  const std::string& address() const { return address_; }

 private:
  const int fd_;
  std::string address_;
};

TEST(Client, RefusedConnectionFailsAtOnceAndNamesTheServer) {
  SilentPort port(/*listening=*/false);
  auto client =
      Client::Connect({.server = port.address(), .connect_timeout = 2 * kPatience});
  const auto begin = std::chrono::steady_clock::now();
  for (const absl::Status& status :
       {client->ListModels().status(),
        client->Generate({.text = "a"}, [](const GenerateChunk&) { return true; })
            .status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(port.address()));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
}

TEST(Client, SilentServerRunsIntoTheConnectTimeout) {
  SilentPort port(/*listening=*/true);
  auto client =
      Client::Connect({.server = port.address(), .connect_timeout = milliseconds(200)});
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status =
      client->Generate({.text = "a"}, [](const GenerateChunk&) { return true; })
          .status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("within 200 ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
}

TEST(Client, TextAndTokensTogetherAreRefused) {
  auto client = Client::Connect({.server = "127.0.0.1:1"});
  const absl::Status status = client
                                  ->Generate({.text = "a", .tokens = {1}},
                                             [](const GenerateChunk&) { return true; })
                                  .status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
}

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(fds_, O_CLOEXEC), 0); }
  ~Pipe() {
    CloseWriter();
    close(fds_[0]);
  }
  void Write(const std::string& text) {
    EXPECT_EQ(write(fds_[1], text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  void CloseWriter() {
    if (fds_[1] >= 0) close(fds_[1]);
    fds_[1] = -1;
  }
  int reader() const { return fds_[0]; }

 private:
  int fds_[2];
};

TEST(LineReader, SplitsLines) {
  Pipe input, stop;
  LineReader lines(input.reader(), stop.reader());
  input.Write("one\ntwo\n\nthr");
  EXPECT_EQ(lines.Next(), "one");
  EXPECT_EQ(lines.Next(), "two");
  EXPECT_EQ(lines.Next(), "");
  input.Write("ee");
  input.CloseWriter();
  EXPECT_EQ(lines.Next(), "three");
  EXPECT_EQ(lines.Next(), std::nullopt);
  EXPECT_EQ(lines.Next(), std::nullopt);
}

TEST(LineReader, StopsOnTheOtherDescriptor) {
  Pipe input, stop;
  LineReader lines(input.reader(), stop.reader());
  stop.Write("x");
  EXPECT_EQ(lines.Next(), std::nullopt);
}

// Whether an action that runs has ended after `call`.
bool WaitsForTheAction(Interrupts& interrupts, const std::function<void()>& call) {
  std::atomic<bool> begun{false};
  std::atomic<bool> ended{false};
  interrupts.SetAction([&] {
    begun = true;
    // A call that does not wait returns within that time.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ended = true;
  });
  kill(getpid(), SIGINT);
  while (!begun) std::this_thread::yield();
  call();
  return ended;
}

// Signals are a matter of the whole process: in a child of its own.
TEST(InterruptsDeathTest, CallTheActionAndRemember) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        alarm(600);
        Interrupts interrupts;
        std::atomic<int> calls{0};
        interrupts.SetAction([&] { ++calls; });
        const auto await = [&](int count) {
          while (calls < count) std::this_thread::yield();
        };
        kill(getpid(), SIGINT);
        await(1);
        bool fine = interrupts.signal() == SIGINT && !interrupts.terminated();
        interrupts.Reset();
        fine = fine && WaitsForTheAction(interrupts, [&] { interrupts.Reset(); });
        fine = fine && WaitsForTheAction(
                           interrupts, [&] { interrupts.SetAction([&] { ++calls; }); });
        interrupts.Reset();
        fine = fine && interrupts.signal() == 0;
        Pipe nothing;
        kill(getpid(), SIGTERM);
        await(2);
        interrupts.Reset();
        fine = fine && interrupts.terminated() && interrupts.signal() == SIGTERM;
        LineReader lines(nothing.reader(), interrupts.fd());
        fine = fine && !lines.Next().has_value();
        _exit(fine ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace mnemon::client
