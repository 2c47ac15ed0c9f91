// SPDX-License-Identifier: MIT
// A hundred thousand sessions at rest in one engine: their memory, and what calls cost
// beside them. A program of its own, whose memory is theirs alone.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "base/strings.h"
#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

constexpr int kFew = 1'000;
constexpr int64_t kTokens = 50;
constexpr size_t kAtOnce = 50;

bool Sanitized() { return std::getenv("MNEMON_SANITIZED") != nullptr; }

int64_t ResidentBytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::string IdOf(int i) { return StrCat("session-with-a-long-name-", i); }

class Scale : public testing::Test {
 protected:
  // Makes sessions up to `end`, each with a history and a state.
  void Fill(int end) {
    std::vector<std::unique_ptr<Reader>> calls;
    for (; made_ < end; ++made_) {
      CreateSessionRequest request{.id = IdOf(made_)};
      request.settings.ttl = std::chrono::milliseconds(1'000'000 + made_ / 100);
      ASSERT_TRUE(server_.engine->CreateSession(request).ok()) << made_;
      calls.push_back(std::make_unique<Reader>(
          *server_.engine, Ask(Tokens(kTokens - 1, made_), 1, IdOf(made_))));
      if (calls.size() < kAtOnce && made_ + 1 < end) continue;
      for (const auto& call : calls) {
        ASSERT_TRUE(call->Finish().status.ok()) << made_;
      }
      calls.clear();
    }
    server_.AwaitIdle();
  }

  // Processor time of the process so far, in seconds, whatever else the machine does.
  static double Used() {
    timespec used = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
  }

  // Median processor time of some calls in seconds.
  template <class Operation>
  static double Median(const Operation& operation) {
    std::vector<double> seconds;
    for (int i = 0; i < 101; ++i) {
      const double begin = Used();
      operation(i);
      seconds.push_back(Used() - begin);
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

  struct Costs {
    double create = 0, list = 0, generate = 0;
  };
  Costs Measure() {
    Engine& engine = *server_.engine;
    Costs costs;
    costs.create = Median([&](int i) {
      EXPECT_TRUE(engine.CreateSession({.id = StrCat("another-", i)}).ok());
    });
    for (int i = 0; i < 101; ++i) {
      EXPECT_TRUE(engine.DeleteSession(StrCat("another-", i)).ok());
    }
    costs.list = Median([&](int i) {
      const auto page =
          engine.ListSessions({.page_size = 50, .page_token = page_token_});
      ASSERT_TRUE(page.ok()) << page.status();
      EXPECT_EQ(page->sessions.size(), 50u);
      page_token_ = i % 10 == 9 ? "" : page->next_page_token;
    });
    page_token_.clear();
    costs.generate = Median([&](int i) {
      EXPECT_TRUE(server_.Run(Ask({1}, 1, IdOf(i * 7 % made_))).status.ok());
    });
    return costs;
  }

  ToyServer server_{ToyState::kFixed};
  int made_ = 0;
  std::string page_token_;
};

TEST_F(Scale, SessionsAtRestTakeWhatIsCountedAndSlowNothingDown) {
  const int many = Sanitized() ? 3'000 : 100'000;
  Fill(kFew);
  const Costs before = Measure();
  malloc_trim(0);
  const int64_t resident = ResidentBytes();
  const int64_t used = server_.engine->Stats().memory.used;
  Fill(many);
  malloc_trim(0);
  const MemoryStats& memory = server_.engine->Stats().memory;
  const auto counted = static_cast<double>(memory.used - used);
  const auto taken = static_cast<double>(ResidentBytes() - resident);
  const double each = counted / (many - kFew);
  RecordProperty("counted_per_session", static_cast<int>(each));
  RecordProperty("resident_per_session", static_cast<int>(taken / (many - kFew)));
  EXPECT_LT(each, 1600);
  if (!Sanitized()) {
    EXPECT_GT(counted, 0.95 * taken);
    EXPECT_LT(counted, 1.05 * taken);
  }

  // What grew with their number would take a hundred times as long.
  const Costs after = Measure();
  constexpr double kJitter = 200e-6;
  EXPECT_LT(after.create, 8 * before.create + kJitter);
  EXPECT_LT(after.list, 8 * before.list + kJitter);
  EXPECT_LT(after.generate, 8 * before.generate + kJitter);

  // A hundred of them expire, and only those are looked at.
  EXPECT_EQ(server_.engine->Stats().sessions, many);
  server_.clock.Advance(std::chrono::milliseconds(1'000'000));
  const double begin = Used();
  EXPECT_EQ(ReasonOf(server_.engine->GetSession(IdOf(0)).status()), "SESSION_EXPIRED");
  EXPECT_LT(Used() - begin, 0.5);
  EXPECT_EQ(server_.engine->Stats().sessions, many - 100);
}

}  // namespace
}  // namespace mnemon
