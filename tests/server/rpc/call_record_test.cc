// SPDX-License-Identifier: MIT
// Every call has an id, a line in the log and a record.
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include <grpcpp/generic/generic_stub.h>

#include "base/error.h"
#include "base/log.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "server/rpc/call_context.h"
#include "tests/fakes/captured_log.h"
#include "tests/fakes/silent_observer.h"
#include "tests/server/rpc/observed_calls.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

// What an engine reports of refusals, and the thread of its steps.
class EngineObserved final : public SilentObserver {
 public:
  void OnStep(size_t, int64_t, Seconds) override {
    std::lock_guard lock(mutex_);
    runner_ = std::this_thread::get_id();
  }
  void OnRefused(std::optional<size_t>, const absl::Status& status) override {
    const auto detail = GetErrorDetail(status);
    std::lock_guard lock(mutex_);
    refusals_.push_back(detail ? detail->reason
                               : absl::StatusCodeToString(status.code()));
  }

  std::vector<std::string> Refusals() const {
    std::lock_guard lock(mutex_);
    return refusals_;
  }
  std::thread::id runner() const {
    std::lock_guard lock(mutex_);
    return runner_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> refusals_;  // guarded by mutex_
  std::thread::id runner_;             // guarded by mutex_
};

v1::GenerateRequest Ask(int32_t max_tokens) {
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->add_ids(1);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  return request;
}

class CallRecordTest : public ::testing::Test {
 protected:
  RigOptions Options(double rate = 0) const {
    RigOptions options;
    options.engine.observer = engine_;
    options.service.observer = observed_;
    options.service.max_calls_per_second = rate;
    return options;
  }

  grpc::Status Run(Rig& rig, const v1::GenerateRequest& request) {
    BoundedContext context;
    auto reader = rig.generation->Generate(&context, request);
    for (v1::GenerateResponse response; reader->Read(&response);) {
    }
    return reader->Finish();
  }

  // The trailer x-request-id of a call, after the call.
  static std::string IdIn(const grpc::ClientContext& context) {
    const auto& trailer = context.GetServerTrailingMetadata();
    const auto found = trailer.find("x-request-id");
    return found == trailer.end()
               ? ""
               : std::string(found->second.data(), found->second.size());
  }

  // What `run`, which makes one call, logs of it. Lines are bounded, so that the first
  // ones may be suppressed.
  std::string Logged(const std::function<void()>& run) {
    std::string log;
    EXPECT_TRUE(Eventually([&] {
      const size_t before = observed_->Ended().size();
      bool ended = false;
      log = CaptureLog([&] {
        run();
        ended = Eventually([&] { return observed_->Ended().size() > before; });
      });
      return ended && !log.empty();
    }));
    return log;
  }

  AccessRecord Only() {
    EXPECT_TRUE(Eventually([&] { return observed_->Ended().size() == 1; }));
    const auto ended = observed_->Ended();
    return ended.empty() ? AccessRecord{} : ended.front();
  }

  // Shared with servers, because calls may end after a test's part in them.
  std::shared_ptr<ObservedCalls> observed_ = std::make_shared<ObservedCalls>();
  std::shared_ptr<EngineObserved> engine_ = std::make_shared<EngineObserved>();
  Rig rig_{Options()};
};

TEST_F(CallRecordTest, UnaryCall) {
  BoundedContext context;
  v1::ListModelsResponse response;
  ASSERT_TRUE(rig_.models_stub->ListModels(&context, {}, &response).ok());
  const AccessRecord call = Only();
  EXPECT_EQ(call.method, "mnemon.v1.Models/ListModels");
  EXPECT_EQ(call.status, absl::StatusCode::kOk);
  EXPECT_EQ(call.request_id, IdIn(context));
  EXPECT_THAT(call.request_id, MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(call.sent_bytes, static_cast<int64_t>(response.ByteSizeLong()));
  EXPECT_GT(call.total.count(), 0);
  EXPECT_LT(call.total.count(), 30);
  EXPECT_EQ(observed_->Started()["mnemon.v1.Models/ListModels"], 1);
}

TEST_F(CallRecordTest, StreamCountsAllMessages) {
  ASSERT_TRUE(rig_.client->CreateSession("s", "").ok());
  ASSERT_TRUE(Eventually([&] { return observed_->Ended().size() == 1; }));
  EXPECT_EQ(observed_->Ended()[0].session, "s");
  EXPECT_EQ(observed_->Ended()[0].model, "toy");
  v1::GenerateRequest request = Ask(40);
  request.set_session("sessions/s");
  BoundedContext context;
  context.AddMetadata("x-request-id", "my-id.1");
  auto reader = rig_.generation->Generate(&context, request);
  int64_t bytes = 0;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    bytes += static_cast<int64_t>(response.ByteSizeLong());
  }
  ASSERT_TRUE(reader->Finish().ok());
  ASSERT_TRUE(Eventually([&] { return observed_->Ended().size() == 2; }));
  const AccessRecord call = observed_->Ended()[1];
  EXPECT_EQ(call.method, "mnemon.v1.Generation/Generate");
  EXPECT_EQ(call.model, "toy");
  EXPECT_EQ(call.session, "s");
  EXPECT_EQ(call.status, absl::StatusCode::kOk);
  EXPECT_EQ(call.reason, "");
  EXPECT_EQ(call.prompt_tokens, 1);
  EXPECT_EQ(call.generated_tokens, 40);
  ASSERT_TRUE(call.queue_time && call.first_token);
  EXPECT_LE(*call.queue_time, *call.first_token);
  EXPECT_LE(*call.first_token, call.total);
  EXPECT_EQ(call.sent_bytes, bytes);
  EXPECT_EQ(call.received_bytes, static_cast<int64_t>(request.ByteSizeLong()));
  EXPECT_EQ(call.request_id, "my-id.1");
  EXPECT_EQ(IdIn(context), "my-id.1");
}

TEST_F(CallRecordTest, StreamOfBothWays) {
  BoundedContext context;
  auto stream = rig_.generation->Score(&context);
  v1::ScoreRequest open, part;
  open.mutable_open();
  for (int id : {1, 2, 3}) part.mutable_part()->mutable_tokens()->add_ids(id);
  ASSERT_TRUE(stream->Write(open));
  ASSERT_TRUE(stream->Write(part));
  ASSERT_TRUE(stream->WritesDone());
  int64_t bytes = 0;
  for (v1::ScoreResponse response; stream->Read(&response);) {
    bytes += static_cast<int64_t>(response.ByteSizeLong());
  }
  ASSERT_TRUE(stream->Finish().ok());
  const AccessRecord call = Only();
  EXPECT_EQ(call.method, "mnemon.v1.Generation/Score");
  EXPECT_EQ(call.status, absl::StatusCode::kOk);
  EXPECT_EQ(call.model, "toy");
  EXPECT_EQ(call.prompt_tokens, 2);
  EXPECT_FALSE(call.first_token);
  EXPECT_EQ(call.sent_bytes, bytes);
  EXPECT_EQ(call.received_bytes,
            static_cast<int64_t>(open.ByteSizeLong() + part.ByteSizeLong()));
  EXPECT_EQ(call.request_id, IdIn(context));
}

// Tokens that were sent and not scored are not counted.
TEST_F(CallRecordTest, AScoreCallCountsTheTokensThatItScored) {
  BoundedContext context;
  auto stream = rig_.generation->Score(&context);
  v1::ScoreRequest open, part;
  open.mutable_open();
  for (int i = 0; i < 100; ++i) part.mutable_part()->mutable_tokens()->add_ids(7);
  part.mutable_part()->mutable_tokens()->set_ids(85, ToyDecoder::kFailing);
  ASSERT_TRUE(stream->Write(open));
  ASSERT_TRUE(stream->Write(part));
  int64_t scored = 0;
  for (v1::ScoreResponse response; stream->Read(&response);) {
    scored += response.logprobs_size();
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_LT(scored, 85);
  EXPECT_EQ(Only().prompt_tokens, scored);
}

TEST_F(CallRecordTest, AScoreCallThatIsClosedInsteadOfOpened) {
  BoundedContext context;
  auto stream = rig_.generation->Score(&context);
  stream->WritesDone();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Only().status, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Only().reason, "INVALID_VALUE");
}

// The end of its messages may be known before the cancellation is.
TEST_F(CallRecordTest, AScoreCallCancelledBeforeItsFirstMessage) {
  constexpr size_t kCalls = 100;
  for (size_t i = 0; i < kCalls; ++i) {
    BoundedContext context;
    auto stream = rig_.generation->Score(&context);
    EXPECT_TRUE(Eventually([&] {
      return observed_->Started()["mnemon.v1.Generation/Score"] == int(i) + 1;
    }));
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  ASSERT_TRUE(Eventually([&] { return observed_->Ended().size() == kCalls; }));
  for (const AccessRecord& call : observed_->Ended()) {
    EXPECT_EQ(call.status, absl::StatusCode::kCancelled) << call.reason;
    EXPECT_EQ(call.reason, "");
  }
}

// Its messages are not those of protobuf.
TEST_F(CallRecordTest, HealthCheck) {
  const std::string service = "mnemon.v1.Generation";
  ASSERT_TRUE(rig_.client->CheckHealth(service).ok());
  const AccessRecord call = Only();
  EXPECT_EQ(call.method, "grpc.health.v1.Health/Check");
  EXPECT_EQ(call.status, absl::StatusCode::kOk);
  EXPECT_EQ(call.received_bytes, static_cast<int64_t>(2 + service.size()));
  EXPECT_EQ(call.sent_bytes, 2);
}

TEST_F(CallRecordTest, FailedCallKeepsItsDetails) {
  BoundedContext context;
  v1::GetSessionRequest request;
  request.set_name("sessions/absent");
  v1::Session session;
  const grpc::Status status = rig_.sessions->GetSession(&context, request, &session);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_FALSE(status.error_details().empty());
  EXPECT_EQ(Only().status, absl::StatusCode::kNotFound);
  EXPECT_EQ(Only().reason, "SESSION_NOT_FOUND");
  EXPECT_EQ(Only().session, "absent");
  EXPECT_FALSE(IdIn(context).empty());
}

// Also of a call that is refused: what its request names, as far as it is known.
TEST_F(CallRecordTest, RefusedCallsNameSessionAndModel) {
  ASSERT_TRUE(rig_.client->CreateSession("s", "").ok());
  // A record may come after the answer, and so after that of the next call.
  ASSERT_TRUE(Eventually([&] { return observed_->Ended().size() == 1; }));
  const auto last = [&](size_t count) {
    EXPECT_TRUE(Eventually([&] { return observed_->Ended().size() == count; }));
    const AccessRecord call = observed_->Ended().back();
    EXPECT_NE(call.status, absl::StatusCode::kOk);
    return StrCat(call.method.substr(call.method.find('/') + 1), " ", call.model, " ",
                  call.session);
  };
  EXPECT_FALSE(rig_.client->CreateSession("s", "").ok());
  EXPECT_EQ(last(2), "CreateSession toy s");
  rig_.engine->Drain();
  EXPECT_FALSE(
      rig_.client
          ->Score({.session = "s", .tokens = {1}}, [](const auto&) { return true; })
          .ok());
  EXPECT_EQ(last(3), "Score toy s");
  v1::GenerateRequest request = Ask(3);
  request.set_session("sessions/s");
  request.set_priority(v1::BATCH);
  EXPECT_FALSE(Run(rig_, request).ok());
  EXPECT_EQ(last(4), "Generate toy s");
  BoundedContext context;
  v1::DeleteSessionRequest deletion;
  deletion.set_name("sessions/s");
  google::protobuf::Empty nothing;
  ASSERT_TRUE(rig_.sessions->DeleteSession(&context, deletion, &nothing).ok());
  ASSERT_TRUE(Eventually([&] { return observed_->Ended().size() == 5; }));
  EXPECT_EQ(observed_->Ended().back().model, "toy");
  EXPECT_EQ(observed_->Ended().back().session, "s");
}

// One refused request is one refusal, whatever refuses it.
TEST_F(CallRecordTest, RefusalsAreRecordedOnce) {
  v1::GenerateRequest request = Ask(3);
  request.set_priority(v1::BATCH);
  EXPECT_FALSE(Run(rig_, request).ok());
  EXPECT_THAT(engine_->Refusals(), ElementsAre("FIELD_UNIMPLEMENTED"));
  request = Ask(3);
  request.set_session("sessions/absent");
  EXPECT_FALSE(Run(rig_, request).ok());
  EXPECT_FALSE(Run(rig_, Ask(-1)).ok());
  EXPECT_THAT(engine_->Refusals(),
              ElementsAre("FIELD_UNIMPLEMENTED", "SESSION_NOT_FOUND", "INVALID_VALUE"));
  EXPECT_TRUE(Run(rig_, Ask(3)).ok());
  EXPECT_THAT(engine_->Refusals(), SizeIs(3));
  EXPECT_TRUE(Eventually([&] { return observed_->Ended().size() == 4; }));
  EXPECT_THAT(observed_->Ended(), testing::Contains(testing::Field(
                                      &AccessRecord::reason, "FIELD_UNIMPLEMENTED")));

  Rig limited(Options(/*rate=*/0.001));
  EXPECT_TRUE(Run(limited, Ask(3)).ok());
  EXPECT_FALSE(Run(limited, Ask(3)).ok());
  EXPECT_THAT(engine_->Refusals(), SizeIs(4));
  EXPECT_EQ(engine_->Refusals().back(), "RATE_LIMIT");
}

// Log and metrics must not hold up a model, whoever ends the call.
TEST_F(CallRecordTest, NoCallEndsOnTheThreadOfAModel) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(Run(rig_, Ask(1 + i % 3)).ok());
    ASSERT_TRUE(Eventually([&] { return observed_->Ended().size() == size_t(i) + 1; }));
    EXPECT_NE(observed_->thread(), engine_->runner());
  }
  EXPECT_NE(engine_->runner(), std::thread::id());
}

// After the first token a retry would store the prompt a second time.
TEST_F(CallRecordTest, NoRetryIsOfferedAfterTheFirstToken) {
  for (const int64_t steps : {0, 3}) {
    Rig rig(Options());
    rig.decoder.Allow(steps);
    BoundedContext context;
    auto reader = rig.generation->Generate(&context, Ask(100));
    int64_t tokens = 0;
    for (v1::GenerateResponse response; tokens < steps && reader->Read(&response);) {
      tokens += response.tokens_size();
    }
    rig.decoder.AwaitHeld();
    rig.server->Shutdown(std::chrono::milliseconds(0));
    rig.decoder.AllowAll();
    const absl::Status status = client::FromGrpcStatus(reader->Finish());
    EXPECT_EQ(GetErrorDetail(status)->reason, "DRAINING");
    EXPECT_EQ(GetErrorDetail(status)->retry_after.has_value(), steps == 0);
    EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"),
              steps == 0 ? 1u : 0u);
  }
}

TEST_F(CallRecordTest, CancelledStream) {
  rig_.decoder.Allow(2);
  BoundedContext context;
  auto reader = rig_.generation->Generate(&context, Ask(100));
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  context.TryCancel();
  reader->Finish();
  EXPECT_EQ(Only().status, absl::StatusCode::kCancelled);
}

TEST_F(CallRecordTest, UnknownMethodsAreOneMethod) {
  grpc::GenericStub stub(rig_.channel);
  for (const char* method :
       {"/mnemon.v1.Generation/Nothing", "/a.B/c", "/mnemon.v1.Models/ListModels/x",
        "/mnemon/v1/Generation/Generate", "/mnemon.v1.Generation.Generate"}) {
    BoundedContext context;
    grpc::CompletionQueue queue;
    grpc::ByteBuffer response;
    grpc::Status status;
    auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(), &queue);
    call->StartCall();
    call->Finish(&response, &status, &queue);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method;
    queue.Shutdown();
  }
  EXPECT_TRUE(rig_.client->ListModels().ok());
  for (const auto& [method, count] : observed_->Started()) {
    EXPECT_THAT(method, ::testing::AnyOf("other", "mnemon.v1.Models/ListModels"));
  }
}

TEST_F(CallRecordTest, LinesNameTheCall) {
  const std::string log = Logged([&] {
    BoundedContext context;
    context.AddMetadata("x-request-id", "find-me");
    v1::GetSessionRequest request;
    request.set_name("sessions/absent");
    v1::Session session;
    rig_.sessions->GetSession(&context, request, &session);
  });
  EXPECT_THAT(log, HasSubstr("event=call request_id=find-me "
                             "method=mnemon.v1.Sessions/GetSession status=NOT_FOUND "
                             "reason=SESSION_NOT_FOUND session=absent ms="));
}

TEST_F(CallRecordTest, LinesAreBounded) {
  const std::string log = CaptureLog([&] {
    for (int i = 0; i < 300; ++i) rig_.client->ListModels().IgnoreError();
    EXPECT_TRUE(Eventually([&] { return observed_->Ended().size() >= 300; }));
  });
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 200);
}

TEST_F(CallRecordTest, TheLineOfAGenerateCall) {
  ASSERT_TRUE(rig_.client->CreateSession("s", "").ok());
  ASSERT_TRUE(Eventually([&] { return observed_->Ended().size() == 1; }));
  v1::GenerateRequest request = Ask(5);
  request.set_session("sessions/s");
  const std::string log = Logged([&] { EXPECT_TRUE(Run(rig_, request).ok()); });
  EXPECT_THAT(log, ContainsRegex(
                       "event=call request_id=[0-9a-f]+ "
                       "method=mnemon.v1.Generation/Generate status=OK model=toy "
                       "session=s prompt_tokens=1 generated_tokens=5 queue_ms=[0-9.]+ "
                       "first_token_ms=[0-9.]+ ms=[0-9.]+ received_bytes=[0-9]+ "
                       "sent_bytes=[0-9]+"));
}

TEST_F(CallRecordTest, TheLineAsJson) {
  SetLogFormat(LogFormat::kJson);
  std::istringstream lines(Logged([&] { EXPECT_TRUE(Run(rig_, Ask(5)).ok()); }));
  SetLogFormat(LogFormat::kText);
  nlohmann::json call;
  for (std::string line; std::getline(lines, line);) {
    call = nlohmann::json::parse(line, nullptr, false);
    EXPECT_TRUE(call.is_object()) << line;
  }
  EXPECT_EQ(call["event"], "call");
  EXPECT_EQ(call["method"], "mnemon.v1.Generation/Generate");
  EXPECT_EQ(call["generated_tokens"], 5);
  EXPECT_TRUE(call["ms"].is_number());
}

TEST(CallerOf, OnlyContextsOfOurServerHaveACaller) {
  grpc::CallbackServerContext context;
  EXPECT_EQ(CallerOf(&context), nullptr);
  EXPECT_EQ(CallerOf(nullptr), nullptr);
}

}  // namespace
}  // namespace mnemon
