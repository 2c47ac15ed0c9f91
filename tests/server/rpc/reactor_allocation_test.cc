// SPDX-License-Identifier: MIT
// Each allocation that the server makes for a call on the engine's threads fails once,
// the first, the second and so on, but for those of gRPC itself: the call has one end,
// typed, and nothing is sent twice.
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "tests/fakes/failing_allocation.h"
#include "tests/fakes/patience.h"
#include "tests/fakes/toy_predictor.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

std::set<pid_t> Threads() {
  std::set<pid_t> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(std::stoi(entry.path().filename()));
  }
  return threads;
}

// Those that the engine has started; constant while calls run.
std::set<pid_t>& EngineThreads() {
  static std::set<pid_t> threads;
  return threads;
}

// Whether the allocation is on a thread of the engine and not within gRPC: the caller
// of operator new, apart from the standard library and protobuf, is not a library of
// gRPC.
bool IsOurs(void* caller) {
  if (!EngineThreads().contains(gettid())) return false;
  constexpr int kMost = 32;
  void* frames[kMost] = {caller};
  const int count = 1 + backtrace(frames + 1, kMost - 1);
  const int at =
      static_cast<int>(std::find(frames + 1, frames + count, caller) - frames);
  for (int i = 0; i < count; i = i == 0 ? at : i + 1) {
    Dl_info library = {};
    if (dladdr(frames[i], &library) == 0 || library.dli_fname == nullptr) continue;
    if (std::strstr(library.dli_fname, "libgrpc") != nullptr) return false;
    if (std::strstr(library.dli_fname, ".so") == nullptr) return true;
  }
  return true;
}

// A model that is served; notes the threads of its engine.
struct Served {
  explicit Served(const EngineModel& model) {
    const std::set<pid_t> before = Threads();
    engine = *Engine::Create({model}, {});
    EngineThreads() = Threads();
    for (const pid_t thread : before) EngineThreads().erase(thread);
    service = *Service::Create(*engine, {});
    server = *RpcServer::Start(*service, {.listen = "127.0.0.1:0"});
    client = client::Client::Connect({.server = StrCat("127.0.0.1:", server->port())});
  }

  std::unique_ptr<Engine> engine;
  std::unique_ptr<Service> service;
  std::unique_ptr<RpcServer> server;
  std::unique_ptr<client::Client> client;
};

class FailingReactors : public testing::Test {
 protected:
  FailingReactors() {
    takes_part = false;
    // Each event passes a limited number of lines, which other tests look for.
    SetLogLevel(LogLevel::kError);
    void* frame;
    backtrace(&frame, 1);  // loads what it needs
  }
  ~FailingReactors() override {
    countdown = 0;
    may_fail = nullptr;
    EngineThreads().clear();
    takes_part = true;
    SetLogLevel(LogLevel::kInfo);
  }

  // `call` with each allocation failing in turn; it expects what has to hold.
  static void ForEachAllocation(const std::function<void()>& call, int64_t least) {
    may_fail = &IsOurs;
    call();
    int64_t failed = 0;
    for (int64_t n = 1; failed == n - 1; ++n) {
      countdown = n;
      call();
      if (countdown.exchange(0) <= 0) failed = n;
      call();  // as before
      if (HasFailure()) FAIL() << "allocation " << n;
    }
    EXPECT_GE(failed, least);
    RecordProperty("failed_allocations", std::to_string(failed));
  }

  static void ExpectOkOrOutOfMemory(const absl::Status& status) {
    if (status.ok()) return;
    EXPECT_EQ(GetErrorDetail(status).value_or(ErrorDetail{}).reason, "OUT_OF_MEMORY")
        << status;
  }
};

TEST_F(FailingReactors, OfGenerate) {
  ToyDecoder decoder(ToyState::kFixed);
  const Served served(
      {.facts = {.name = "toy", .vocab = ToyDecoder::kVocab}, .decoder = &decoder});
  const std::vector<int32_t> expected =
      ToyContinuation(ToyState::kFixed, {1}, 100, {.temperature = 0});
  ForEachAllocation(
      [&] {
        // Collect expects that no token is missing and none comes twice.
        client::GenerateOptions options{.tokens = {1},
                                        .stopping = {.max_tokens = 100},
                                        .sampling = {.temperature = 0}};
        options.logprobs = {.wanted = true, .most_likely = 2};
        const Collected got = Collect(*served.client, options);
        ExpectOkOrOutOfMemory(got.result.status());
        ASSERT_LE(got.tokens.size(), expected.size());
        EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), expected.begin()));
        EXPECT_EQ(got.result.ok(), got.tokens.size() == expected.size());
        EXPECT_TRUE(served.engine->WaitIdle(kPatience));
      },
      10);
}

TEST_F(FailingReactors, OfScore) {
  ToyDecoder decoder(ToyState::kFixed);
  const Served served(
      {.facts = {.name = "toy", .vocab = ToyDecoder::kVocab}, .decoder = &decoder});
  ForEachAllocation(
      [&] {
        int64_t next = 1;
        const auto result = served.client->Score(
            {.most_likely = 2, .tokens = std::vector<int32_t>(150, 3)},
            [&](const std::vector<client::TokenLogprobs>& tokens) {
              for (const client::TokenLogprobs& one : tokens) {
                EXPECT_EQ(one.index, next++);
              }
              return true;
            });
        ExpectOkOrOutOfMemory(result.status());
        EXPECT_LE(next, 150);
        if (result.ok()) {
          EXPECT_EQ(next, 150);
        }
        EXPECT_TRUE(served.engine->WaitIdle(kPatience));
      },
      10);
}

TEST_F(FailingReactors, OfPredict) {
  ToyPredictor predictor(3);
  const Served served({.facts = {.name = "encoder", .vocab = ToyPredictor::kVocab},
                       .predictor = &predictor});
  ForEachAllocation(
      [&] {
        const auto got = served.client->Predict({.sequences = {{1, 2, 3}, {4, 5, 6}}});
        ExpectOkOrOutOfMemory(got.status());
        if (got.ok()) {
          EXPECT_EQ(got->logits.values.size(), 6 * ToyPredictor::kVocab);
        }
        EXPECT_TRUE(served.engine->WaitIdle(kPatience));
      },
      5);
}

}  // namespace
}  // namespace mnemon
