// SPDX-License-Identifier: MIT
// A server whose standard error nobody reads: a stopped terminal, a stuck log driver.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "gmock/gmock.h"
#include "server/serve.h"
#include "tests/fakes/http_get.h"
#include "tests/fakes/patience.h"
#include "tests/server/main/server_binary.h"

namespace mnemon {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

TEST_F(ServerBinary, ServesAndStopsWhileItsLogIsNotRead) {
  const std::string fifo = Path("log");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int reader = open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(fcntl(reader, F_SETPIPE_SZ, 4096), 0);
  const std::string page(4096, '\n');
  while (write(reader, page.data(), page.size()) > 0) {
  }
  auto server = Listening({"--log-format", "json"}, fifo);
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(Mnemon({"generate", "--prompt", "abc", "--max-tokens", "20"}).size(),
              20u);
  }
  EXPECT_THAT(HttpGet(http_port_, "/metrics").body,
              HasSubstr("\nmnemon_log_lines_total{outcome=\"written\"} 0\n"));
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(kPatience), 0);
  close(reader);
}

TEST(WhyProcessUnready, TellsOfALogThatLosesLines) {
  using std::chrono::milliseconds;
  const auto why = [](milliseconds blocked, int64_t lost) {
    return WhyProcessUnready(
        {.lost = 10, .waiting = 256, .blocked = blocked, .lost_meanwhile = lost});
  };
  EXPECT_EQ(why(milliseconds(5001), 1), "log blocked");
  EXPECT_EQ(why(milliseconds(5001), 0), "");
  EXPECT_EQ(why(milliseconds(5000), 9), "");
}

}  // namespace
}  // namespace mnemon
