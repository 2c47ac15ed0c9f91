// SPDX-License-Identifier: MIT
#include "server/transport/local_listener.h"

#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <mutex>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/patience.h"
#include "tests/server/transport/sockets.h"

namespace mnemon {
namespace {

// Of the abstract namespace; the process makes each of its tests' names its own.
std::string Name() { return StrCat("mnemon-test-", getpid()); }

Descriptor NewSocket() {
  return Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

bool Connect(const Descriptor& fd, const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                        name.size())) == 0;
}

class LocalListening : public ::testing::Test {
 protected:
  LocalListening() {
    auto opened = LocalListener::Open(Name());
    EXPECT_TRUE(opened.ok()) << opened.status();
    listener = *std::move(opened);
    EXPECT_TRUE(listener
                    ->Start([this](Descriptor fd) {
                      std::lock_guard lock(mutex);
                      accepted.push_back(std::move(fd));
                    })
                    .ok());
  }

  size_t Accepted() {
    std::lock_guard lock(mutex);
    return accepted.size();
  }

  std::mutex mutex;
  std::vector<Descriptor> accepted;  // guarded by mutex
  std::unique_ptr<LocalListener> listener;
};

TEST_F(LocalListening, AcceptsAgainOnceThereAreDescriptors) {
  std::vector<Descriptor> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(NewSocket());
  rlimit files = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none = {.rlim_cur = static_cast<rlim_t>(waiting.front().get()),
                       .rlim_max = files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (const Descriptor& fd : waiting) EXPECT_TRUE(Connect(fd, Name()));
  // More than one try.
  EXPECT_FALSE(
      Eventually([&] { return Accepted() > 0; }, std::chrono::milliseconds(120)));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_TRUE(Eventually([&] { return Accepted() == waiting.size(); }));
}

TEST_F(LocalListening, RefusesOtherProcesses) {
  const std::string name = Name();
  const pid_t other = fork();
  if (other == 0) {
    const Descriptor fd = NewSocket();
    char byte;
    _exit(Connect(fd, name) && recv(fd.get(), &byte, 1, 0) <= 0 ? 0 : 1);
  }
  int end = -1;
  ASSERT_EQ(waitpid(other, &end, 0), other);
  EXPECT_EQ(end, 0);
  EXPECT_EQ(Accepted(), 0u);
  const Descriptor own = NewSocket();
  EXPECT_TRUE(Connect(own, name));
  EXPECT_TRUE(Eventually([&] { return Accepted() == 1; }));
}

TEST_F(LocalListening, ANameIsTakenUntilItStops) {
  EXPECT_TRUE(absl::IsUnavailable(LocalListener::Open(Name()).status()));
  listener->Stop();
  EXPECT_FALSE(Connect(NewSocket(), Name()));
  EXPECT_TRUE(LocalListener::Open(Name()).ok());
}

}  // namespace
}  // namespace mnemon
