// SPDX-License-Identifier: MIT
// Callers that neither read nor send: their calls end, whatever they are blocked in.
#include <atomic>
#include <future>

#include "base/error.h"
#include "client/status.h"
#include "server/requests/engine_errors.h"
#include "tests/fakes/patience.h"
#include "tests/server/rpc/observed_calls.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kIdle{300};
constexpr char kGenerate[] = "mnemon.v1.Generation/Generate";
constexpr char kScore[] = "mnemon.v1.Generation/Score";

class IdleCallers : public ::testing::Test {
 protected:
  RigOptions Options(milliseconds idle_timeout) const {
    return {.state = ToyState::kFixed,
            .engine = {.idle_timeout = idle_timeout},
            .service = {.observer = observed_}};
  }

  // Stub of a channel that takes no whole message of an unread stream.
  static std::unique_ptr<v1::Generation::Stub> SmallWindow(const Rig& rig) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
    return v1::Generation::NewStub(grpc::CreateCustomChannel(
        rig.address(), grpc::InsecureChannelCredentials(), arguments));
  }

  bool Started(const std::string& method) const {
    return Eventually([&] { return observed_->Started()[method] == 1; });
  }
  // The only call of `method`, once it has ended; the server looks for idle callers
  // meanwhile.
  AccessRecord Ended(Rig& rig, const std::string& method) const {
    AccessRecord found;
    EXPECT_TRUE(Eventually([&] {
      rig.service->EndIdleCalls();
      for (const AccessRecord& call : observed_->Ended()) {
        if (call.method == method) found = call;
      }
      return !found.method.empty();
    }));
    return found;
  }

  static void ExpectShutdownAtOnce(Rig& rig) {
    const auto begin = steady_clock::now();
    rig.server->Shutdown(2 * kPatience);
    EXPECT_LT(steady_clock::now() - begin, kPatience);
  }

  const std::shared_ptr<ObservedCalls> observed_ = std::make_shared<ObservedCalls>();
};

struct Case {
  bool session;
  int32_t max_tokens;  // 64 wait in a stream
};

class IdleReader : public IdleCallers, public ::testing::WithParamInterface<Case> {};

// A message that the transport does not take keeps a call open, whether its tokens are
// all computed or not.
TEST_P(IdleReader, ItsCallEnds) {
  Rig rig(Options(kIdle));
  const auto stub = SmallWindow(rig);
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->add_ids(3);
  request.mutable_stopping()->set_max_tokens(GetParam().max_tokens);
  request.mutable_output()->set_top_candidate_count(20);
  if (GetParam().session) {
    ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
    request.set_session("sessions/s");
  }
  BoundedContext context;
  const auto begin = steady_clock::now();
  const auto reader = stub->Generate(&context, request);
  const AccessRecord call = Ended(rig, kGenerate);
  EXPECT_GE(steady_clock::now() - begin, kIdle);
  EXPECT_EQ(call.status, absl::StatusCode::kAborted);
  EXPECT_EQ(call.reason, "CALLER_IDLE");
  EXPECT_GE(call.total, kIdle);
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
  ExpectShutdownAtOnce(rig);
  for (v1::GenerateResponse response; reader->Read(&response);) {
  }
  EXPECT_FALSE(reader->Finish().ok());
}

INSTANTIATE_TEST_SUITE_P(All, IdleReader,
                         ::testing::Values(Case{false, 0}, Case{true, 0},
                                           Case{false, 60}, Case{true, 60},
                                           Case{false, 2000}, Case{true, 2000}),
                         [](const auto& param) {
                           return StrCat(param.param.session ? "Session" : "Stateless",
                                         param.param.max_tokens);
                         });

TEST_F(IdleCallers, AScoreCallThatIsNotOpenedEnds) {
  Rig rig(Options(kIdle));
  BoundedContext context;
  const auto stream = rig.generation->Score(&context);
  ASSERT_TRUE(Started(kScore));
  const AccessRecord call = Ended(rig, kScore);
  EXPECT_EQ(call.status, absl::StatusCode::kAborted);
  EXPECT_EQ(call.reason, "CALLER_IDLE");
  EXPECT_GE(call.total, kIdle);
  const absl::Status status = client::FromGrpcStatus(stream->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(GetErrorDetail(status)->reason, "CALLER_IDLE");
  ExpectShutdownAtOnce(rig);
}

TEST_F(IdleCallers, AScoreCallWhoseScoresAreNotReadEnds) {
  Rig rig(Options(kIdle));
  const auto stub = SmallWindow(rig);
  BoundedContext context;
  const auto stream = stub->Score(&context);
  v1::ScoreRequest open, part;
  open.mutable_open();
  part.mutable_part()->set_text(std::string(500, 'a'));
  ASSERT_TRUE(stream->Write(open));
  ASSERT_TRUE(stream->Write(part));
  const AccessRecord call = Ended(rig, kScore);
  EXPECT_EQ(call.status, absl::StatusCode::kAborted);
  EXPECT_EQ(call.reason, "CALLER_IDLE");
  ExpectShutdownAtOnce(rig);
}

// A write holds up what was computed meanwhile; that comes before the end all the same.
TEST_F(IdleCallers, WhatWaitsIsDeliveredBeforeTheServerEndsACall) {
  Rig rig(Options(seconds(30)));
  const auto stub = SmallWindow(rig);
  BoundedContext score_context, generate_context;
  const auto score = stub->Score(&score_context);
  v1::ScoreRequest open, part;
  open.mutable_open();
  part.mutable_part()->set_text(std::string(100, 'a'));
  ASSERT_TRUE(score->Write(open));
  ASSERT_TRUE(score->Write(part));
  ASSERT_TRUE(score->WritesDone());
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->add_ids(3);
  request.mutable_stopping()->set_max_tokens(2000);
  // So that a message is larger than the window.
  request.mutable_output()->set_top_candidate_count(20);
  const auto generate = stub->Generate(&generate_context, request);
  // Both have done what they can: one stream is full, the other has all scores.
  ASSERT_TRUE(Eventually([&] {
    const EngineStats now = rig.engine->Stats();
    return now.tokens_generated > 64 &&
           now.tokens_computed >= 99 + now.tokens_generated &&
           now.models[0].stalled >= 1;
  }));
  const int64_t generated = rig.engine->Stats().tokens_generated;
  std::future<void> closed =
      std::async(std::launch::async, [&] { rig.server->Shutdown(milliseconds(0)); });
  int64_t scored = 0, tokens = 0;
  for (v1::ScoreResponse response; score->Read(&response);) {
    scored += response.logprobs_size();
  }
  EXPECT_EQ(scored, 99);
  // It may have been read to its end just before the shutdown came to it.
  const grpc::StatusCode end = score->Finish().error_code();
  EXPECT_TRUE(end == grpc::StatusCode::UNAVAILABLE || end == grpc::StatusCode::OK);
  for (v1::GenerateResponse response; generate->Read(&response);) {
    tokens += response.tokens_size();
  }
  const absl::Status status = client::FromGrpcStatus(generate->Finish());
  EXPECT_EQ(GetErrorDetail(status).value_or(ErrorDetail{}).reason, "DRAINING")
      << status;
  // More may be generated while the end is on its way; those are cut off.
  EXPECT_GE(tokens, generated);
  closed.get();
}

TEST_F(IdleCallers, OthersGoOn) {
  Rig rig(Options(seconds(30)));
  BoundedContext context;
  const auto stream = rig.generation->Score(&context);
  v1::ScoreRequest request;
  request.mutable_open();
  ASSERT_TRUE(stream->Write(request));
  request.mutable_part()->set_text("abc");
  v1::ScoreResponse response;
  for (int part = 0; part < 3; ++part) {
    rig.service->EndIdleCalls();
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&response));
  }
  stream->WritesDone();
  while (stream->Read(&response)) {
  }
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(IdleCallers, ADrainEndsScoreCallsThatAreNotOpened) {
  Rig rig(Options(seconds(30)));
  BoundedContext before, after;
  const auto first = rig.generation->Score(&before);
  ASSERT_TRUE(Started(kScore));
  rig.decoder.Allow(0);
  std::future<Collected> running = std::async(std::launch::async, [&] {
    return Collect(*rig.NewClient(), {.tokens = {1}, .stopping = {.max_tokens = 3}});
  });
  rig.decoder.AwaitHeld();
  rig.engine->Drain();
  std::future<void> closed =
      std::async(std::launch::async, [&] { rig.server->Shutdown(2 * kPatience); });
  const auto expect_drained = [](grpc::Status status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(GetErrorDetail(client::FromGrpcStatus(status))->reason, "DRAINING");
  };
  expect_drained(first->Finish());
  // One that comes while the shutdown waits for the other call.
  expect_drained(rig.generation->Score(&after)->Finish());
  EXPECT_EQ(closed.wait_for(seconds(0)), std::future_status::timeout);
  rig.decoder.AllowAll();
  EXPECT_TRUE(running.get().result.ok());
  EXPECT_EQ(closed.wait_for(kPatience), std::future_status::ready);
}

// Calls end at any moment while the server ends idle ones.
TEST_F(IdleCallers, EndWhileOthersDo) {
  Rig rig(Options(milliseconds(1)));
  std::atomic<bool> over = false;
  std::thread ender([&] {
    for (; !over; std::this_thread::yield()) rig.service->EndIdleCalls();
  });
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&, i] {
      const auto stub = SmallWindow(rig);
      for (int round = 0; round < 30; ++round) {
        v1::GenerateRequest request;
        request.mutable_prompt()->mutable_tokens()->add_ids(i);
        request.mutable_stopping()->set_max_tokens(round % 7 * 10);
        BoundedContext context;
        const auto reader = stub->Generate(&context, request);
        if (round % 5 == 0) context.TryCancel();
        for (v1::GenerateResponse response; reader->Read(&response);) {
        }
        reader->Finish();
        BoundedContext unopened;
        const auto scores = stub->Score(&unopened);
        if (round % 3 == 0) unopened.TryCancel();
        EXPECT_FALSE(scores->Finish().ok());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(Eventually([&] { return observed_->Ended().size() == 240; }));
  over = true;
  ender.join();
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
}

}  // namespace
}  // namespace mnemon
