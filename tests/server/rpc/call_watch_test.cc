// SPDX-License-Identifier: MIT
// Every call has an id, a line in the log and a record.
#include <map>
#include <mutex>

#include <grpcpp/generic/generic_stub.h>

#include "gmock/gmock.h"
#include "server/rpc/call_record.h"
#include "server/rpc/request_ids.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

// What a watch was told; shared with it, because calls may end after a test's part in
// them.
struct Told {
  std::mutex mutex;
  std::map<std::string, int> started;  // guarded by mutex
  std::vector<CallRecord> ended;       // guarded by mutex

  std::vector<CallRecord> Ended() {
    std::lock_guard lock(mutex);
    return ended;
  }
};

class CallWatchTest : public ::testing::Test {
 protected:
  static RigOptions Options(std::shared_ptr<Told> told) {
    RigOptions options;
    options.rpc.watch.started = [told](const std::string& method) {
      std::lock_guard lock(told->mutex);
      ++told->started[method];
    };
    options.rpc.watch.ended = [told](const CallRecord& call) {
      std::lock_guard lock(told->mutex);
      told->ended.push_back(call);
    };
    return options;
  }

  // The trailer x-request-id of a call, after the call.
  static std::string IdIn(const grpc::ClientContext& context) {
    const auto& trailer = context.GetServerTrailingMetadata();
    const auto found = trailer.find("x-request-id");
    return found == trailer.end()
               ? ""
               : std::string(found->second.data(), found->second.size());
  }

  CallRecord Only() {
    EXPECT_TRUE(Eventually([&] { return told_->Ended().size() == 1; }));
    const auto ended = told_->Ended();
    return ended.empty() ? CallRecord{} : ended.front();
  }

  std::shared_ptr<Told> told_ = std::make_shared<Told>();
  Rig rig_{Options(told_)};
};

TEST_F(CallWatchTest, UnaryCall) {
  BoundedContext context;
  v1::ListModelsResponse response;
  ASSERT_TRUE(rig_.models_stub->ListModels(&context, {}, &response).ok());
  const CallRecord call = Only();
  EXPECT_EQ(call.method, "mnemon.v1.Models/ListModels");
  EXPECT_EQ(call.status, "OK");
  EXPECT_EQ(call.request_id, IdIn(context));
  EXPECT_THAT(call.request_id, MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(call.sent_bytes, static_cast<int64_t>(response.ByteSizeLong()));
  EXPECT_GT(call.took.count(), 0);
  EXPECT_LT(call.took.count(), 30);
  EXPECT_EQ(told_->started["mnemon.v1.Models/ListModels"], 1);
}

TEST_F(CallWatchTest, StreamCountsAllMessages) {
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->add_ids(1);
  request.mutable_stopping()->set_max_tokens(40);
  BoundedContext context;
  context.AddMetadata("x-request-id", "my-id.1");
  auto reader = rig_.generation->Generate(&context, request);
  int64_t bytes = 0;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    bytes += static_cast<int64_t>(response.ByteSizeLong());
  }
  ASSERT_TRUE(reader->Finish().ok());
  const CallRecord call = Only();
  EXPECT_EQ(call.method, "mnemon.v1.Generation/Generate");
  EXPECT_EQ(call.sent_bytes, bytes);
  EXPECT_EQ(call.received_bytes, static_cast<int64_t>(request.ByteSizeLong()));
  EXPECT_EQ(call.request_id, "my-id.1");
  EXPECT_EQ(IdIn(context), "my-id.1");
}

TEST_F(CallWatchTest, StreamOfBothWays) {
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
  const CallRecord call = Only();
  EXPECT_EQ(call.method, "mnemon.v1.Generation/Score");
  EXPECT_EQ(call.status, "OK");
  EXPECT_EQ(call.sent_bytes, bytes);
  EXPECT_EQ(call.received_bytes,
            static_cast<int64_t>(open.ByteSizeLong() + part.ByteSizeLong()));
  EXPECT_EQ(call.request_id, IdIn(context));
}

// Its messages are not those of protobuf.
TEST_F(CallWatchTest, HealthCheck) {
  const std::string service = "mnemon.v1.Generation";
  ASSERT_TRUE(rig_.client->CheckHealth(service).ok());
  const CallRecord call = Only();
  EXPECT_EQ(call.method, "grpc.health.v1.Health/Check");
  EXPECT_EQ(call.status, "OK");
  EXPECT_EQ(call.received_bytes, static_cast<int64_t>(2 + service.size()));
  EXPECT_EQ(call.sent_bytes, 2);
}

TEST_F(CallWatchTest, FailedCallKeepsItsDetails) {
  BoundedContext context;
  v1::GetSessionRequest request;
  request.set_name("sessions/absent");
  v1::Session session;
  const grpc::Status status = rig_.sessions->GetSession(&context, request, &session);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_FALSE(status.error_details().empty());
  EXPECT_EQ(Only().status, "NOT_FOUND");
  EXPECT_FALSE(IdIn(context).empty());
}

TEST_F(CallWatchTest, CancelledStream) {
  rig_.decoder.Allow(2);
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->add_ids(1);
  request.mutable_stopping()->set_max_tokens(100);
  BoundedContext context;
  auto reader = rig_.generation->Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  context.TryCancel();
  reader->Finish();
  EXPECT_EQ(Only().status, "CANCELLED");
}

TEST_F(CallWatchTest, UnknownMethodsAreOneMethod) {
  grpc::GenericStub stub(rig_.channel);
  for (const char* method :
       {"/mnemon.v1.Generation/Nothing", "/a.B/c", "/mnemon.v1.Models/ListModels/x"}) {
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
  std::lock_guard lock(told_->mutex);
  for (const auto& [method, count] : told_->started) {
    EXPECT_THAT(method, ::testing::AnyOf("other", "mnemon.v1.Models/ListModels"));
  }
}

TEST_F(CallWatchTest, LinesNameTheCallAndAreBounded) {
  testing::internal::CaptureStderr();
  {
    BoundedContext context;
    context.AddMetadata("x-request-id", "find-me");
    v1::GetSessionRequest request;
    request.set_name("sessions/absent");
    v1::Session session;
    rig_.sessions->GetSession(&context, request, &session);
  }
  for (int i = 0; i < 300; ++i) rig_.client->ListModels().IgnoreError();
  EXPECT_TRUE(Eventually([&] { return told_->Ended().size() == 301; }));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("event=call request_id=find-me "
                             "method=mnemon.v1.Sessions/GetSession status=NOT_FOUND "));
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 200);
}

TEST(RequestId, TakesOnlyPlainOnesFromCallers) {
  EXPECT_EQ(ChooseRequestId("a-Z_0.9"), "a-Z_0.9");
  EXPECT_EQ(ChooseRequestId(std::string(64, 'a')), std::string(64, 'a'));
  for (const std::string& sent :
       {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a\nb"),
        std::string("\"x\""), std::string("\xc3\xa9"), std::string(1, '\0')}) {
    EXPECT_THAT(ChooseRequestId(sent), MatchesRegex("[0-9a-f]{16}")) << sent;
  }
}

TEST(RequestId, DrawnOnesDiffer) {
  std::map<std::string, int> seen;
  for (int i = 0; i < 1000; ++i) ++seen[ChooseRequestId("")];
  EXPECT_THAT(seen, SizeIs(1000));
}

TEST(RequestId, IsForgottenWithItsCall) {
  const auto* context = reinterpret_cast<const grpc::ServerContextBase*>(0x10);
  EXPECT_EQ(RequestIdOf(context), "");
  RememberRequestId(context, "x");
  EXPECT_EQ(RequestIdOf(context), "x");
  ForgetRequestId(context);
  EXPECT_EQ(RequestIdOf(context), "");
}

}  // namespace
}  // namespace mnemon
