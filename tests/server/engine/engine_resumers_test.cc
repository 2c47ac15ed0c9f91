// SPDX-License-Identifier: MIT
// Many calls that resume the same one: the last that has begun to has the stream, each
// of the others ends with STREAM_RESUMED.
#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/engine/engine_fixture.h"

namespace mnemon {
namespace {

using ::testing::SizeIs;

constexpr char kId[] = "00000000-0000-4000-8000-000000000001";
constexpr int32_t kTokens = 60;

GenerateRequest First() {
  GenerateRequest request = Ask({1, 2}, kTokens, "s");
  request.request_id = kId;
  return request;
}
GenerateRequest Resume(int64_t after) {
  return {.session = "s", .request_id = kId, .resume_after = after};
}
std::vector<int32_t> Expected() {
  return ToyContinuation(ToyState::kFixedAndAppend, {1, 2}, kTokens, AskedSampling());
}

struct ResumersServer : ToyServer {
  explicit ResumersServer(Engine::Options options = {})
      : ToyServer(ToyState::kFixedAndAppend, options) {
    CreateSession("s");
  }
  // All but the last one are over, and the last has the stream after `after`.
  void ExpectTheLastHasIt(std::deque<Reader>& readers, int64_t after) {
    for (size_t i = 0; i + 1 < readers.size(); ++i) {
      EXPECT_EQ(ReasonOf(readers[i].Finish().status), "STREAM_RESUMED") << i;
    }
    const Outcome last = readers.back().Finish();
    ASSERT_TRUE(last.status.ok()) << last.status;
    const std::vector<int32_t> all = Expected();
    EXPECT_EQ(last.tokens, std::vector<int32_t>(
                               all.begin() + (after < 0 ? 0 : after - 1), all.end()));
    AwaitIdle();
    EXPECT_EQ(Position("s"), 2 + kTokens);
  }
};

TEST(EngineResumers, TheLastOfManyHasARunningStream) {
  ResumersServer server;
  server.decoder.Allow(10);
  std::deque<Reader> readers;
  readers.emplace_back(*server.engine, First());
  readers.back().Next();
  server.decoder.AwaitHeld();
  for (int i = 0; i < 50; ++i) {
    readers.emplace_back(*server.engine, Resume(-1));
    ASSERT_TRUE(readers.back().status().ok()) << readers.back().status();
  }
  server.decoder.AllowAll();
  server.ExpectTheLastHasIt(readers, -1);
}

// None gets a permit while another call runs, and the queue is short.
TEST(EngineResumers, TheLastOfManyHasOneThatWaitsInTheQueue) {
  ResumersServer server({.sessions = 4, .running = 1, .max_queue = 1});
  server.decoder.Allow(10);
  Reader lost(*server.engine, First());
  lost.Next();
  lost.stream().Cancel();
  while (server.engine->Stats().running > 0) {
    server.decoder.Allow(1);
    std::this_thread::yield();
  }
  server.decoder.Allow(0);
  Reader other(*server.engine, Ask({1}, 5));
  server.decoder.AwaitHeld();
  std::deque<Reader> readers;
  for (int i = 0; i < 50; ++i) {
    readers.emplace_back(*server.engine, Resume(-1));
    ASSERT_TRUE(readers.back().status().ok()) << readers.back().status();
  }
  server.decoder.AllowAll();
  EXPECT_TRUE(other.Finish().status.ok());
  server.ExpectTheLastHasIt(readers, -1);
}

// Each of several threads knows that its own last one is not older than its others.
TEST(EngineResumers, OneOfThoseAtOnceHasIt) {
  constexpr int kThreads = 4;
  constexpr int kEach = 60;
  ResumersServer server;
  server.decoder.Allow(10);
  Reader first(*server.engine, First());
  first.Next();
  std::atomic<int> ready = 0;
  std::vector<std::deque<Reader>> readers(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      for (int k = 0; k < kEach; ++k)
        readers[i].emplace_back(*server.engine, Resume(-1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  server.decoder.AllowAll();
  int whole = 0;
  for (auto& of_thread : readers) {
    for (Reader& reader : of_thread) {
      const Outcome outcome = reader.Finish();
      if (outcome.status.ok()) {
        ++whole;
        EXPECT_EQ(&reader, &of_thread.back());
        EXPECT_EQ(outcome.tokens, Expected());
      } else {
        EXPECT_EQ(ReasonOf(outcome.status), "STREAM_RESUMED") << outcome.status;
      }
    }
  }
  EXPECT_EQ(whole, 1);
  EXPECT_EQ(ReasonOf(first.Finish().status), "STREAM_RESUMED");
  server.AwaitIdle();
  EXPECT_EQ(server.Position("s"), 2 + kTokens);
}

// While it comes to its end, too: whoever has read it, each end is one of the two.
TEST(EngineResumers, NoneIsRefusedWhileTheStreamEnds) {
  ResumersServer server;
  for (int round = 0; round < 30; ++round) {
    GenerateRequest request = Ask({1, 2}, 8, "s");
    request.request_id = kId;
    request.request_id.back() = static_cast<char>('a' + round % 6);
    request.request_id[0] = static_cast<char>('0' + round / 6);
    const auto read = [&] {
      for (int i = 0; i < 20; ++i) {
        const absl::Status end = Reader(*server.engine, request).Finish().status;
        EXPECT_TRUE(end.ok() || ReasonOf(end) == "STREAM_RESUMED") << end;
      }
    };
    EXPECT_TRUE(server.Run(request).status.ok());
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back(read);
    for (std::thread& thread : threads) thread.join();
    server.AwaitIdle();
    EXPECT_EQ(server.Position("s"), 10 * (round + 1));
  }
}

TEST(EngineResumers, ADeletedSessionAnswersThoseThatWait) {
  ResumersServer server({.sessions = 4, .running = 1});
  server.decoder.Allow(10);
  Reader lost(*server.engine, First());
  lost.Next();
  lost.stream().Cancel();
  while (server.engine->Stats().running > 0) {
    server.decoder.Allow(1);
    std::this_thread::yield();
  }
  server.decoder.Allow(0);
  Reader other(*server.engine, Ask({1}, 5));
  server.decoder.AwaitHeld();
  std::deque<Reader> readers;
  for (int i = 0; i < 10; ++i) readers.emplace_back(*server.engine, Resume(-1));
  ASSERT_TRUE(server.engine->DeleteSession("s").ok());
  server.decoder.AllowAll();
  for (size_t i = 0; i < readers.size(); ++i) {
    const std::string reason = ReasonOf(readers[i].Finish().status);
    EXPECT_TRUE(reason == "SESSION_DELETED" || reason == "SESSION_NOT_FOUND" ||
                (reason == "STREAM_RESUMED" && i + 1 < readers.size()))
        << i << reason;
  }
  EXPECT_TRUE(other.Finish().status.ok());
  server.AwaitIdle();
}

}  // namespace
}  // namespace mnemon
