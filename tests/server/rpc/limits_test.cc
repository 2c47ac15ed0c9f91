// SPDX-License-Identifier: MIT
// What bounds a caller: deadlines, rates; request ids; reflection.
#include <algorithm>
#include <filesystem>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/generic/generic_stub.h>

#include "base/error.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/rpc/call_context.h"
#include "tests/fakes/patience.h"
#include "tests/server/rpc/observed_calls.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

constexpr char kUuid[] = "01234567-89ab-cdef-0123-456789abcdef";

v1::GenerateRequest Ask(int32_t token, int32_t max_tokens) {
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->add_ids(token);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  return request;
}

struct Answer {
  std::vector<int32_t> tokens;
  grpc::Status status;
  std::string reason;
};

Answer Ended(Rig& rig, const v1::GenerateRequest& request,
             milliseconds timeout = kPatience) {
  BoundedContext context(timeout);
  auto reader = rig.generation->Generate(&context, request);
  Answer answer;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    answer.tokens.insert(answer.tokens.end(), response.tokens().begin(),
                         response.tokens().end());
  }
  answer.status = reader->Finish();
  answer.reason = GetErrorDetail(client::FromGrpcStatus(answer.status))
                      .value_or(ErrorDetail{})
                      .reason;
  return answer;
}

TEST(Deadline, InTheQueueCostsNoComputation) {
  Rig rig({.engine = {.running = 1}});
  rig.decoder.Allow(0);
  BoundedContext context;
  auto first = rig.generation->Generate(&context, Ask(1, 10));
  rig.decoder.AwaitHeld();
  const Answer late = Ended(rig, Ask(2, 10), milliseconds(50));
  EXPECT_EQ(late.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(late.status.error_details().empty());
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().queued == 0; }));
  rig.decoder.AllowAll();
  v1::GenerateResponse response;
  while (first->Read(&response)) {
  }
  EXPECT_TRUE(first->Finish().ok());
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
  EXPECT_EQ(rig.engine->Stats().tokens_computed, 10);
}

TEST(Deadline, InThePastIsRefusedAndInAHundredYearsWorks) {
  Rig rig;
  EXPECT_EQ(Ended(rig, Ask(1, 3), milliseconds(-5000)).status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Ended(rig, Ask(1, 3), std::chrono::hours(24 * 365 * 100)).status.ok());
}

TEST(RpcCaller, HasNoDeadlineWithoutOne) {
  grpc::CallbackServerContext context;
  EXPECT_EQ(RpcCaller(context).deadline(), std::nullopt);
}

TEST(Admission, RefusesOverGrpcWithTheTimeToWait) {
  Rig rig({.service = {.max_calls_per_second = 0.001}});
  EXPECT_TRUE(Ended(rig, Ask(1, 3)).status.ok());
  const Answer refused = Ended(rig, Ask(1, 3));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.reason, "RATE_LIMIT");
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(refused.status.error_details()));
  int retries = 0;
  int quotas = 0;
  for (const auto& any : details.details()) {
    retries += any.Is<google::rpc::RetryInfo>();
    quotas += any.Is<google::rpc::QuotaFailure>();
  }
  EXPECT_EQ(retries, 1);
  EXPECT_EQ(quotas, 1);
  EXPECT_FALSE(rig.client->Tokenize("", "abc").ok());
  EXPECT_FALSE(rig.client->CreateSession("s", "").ok());
  const auto scored =
      rig.client->Score({.text = "abc"}, [](const auto&) { return true; });
  EXPECT_EQ(GetErrorDetail(scored.status())->reason, "RATE_LIMIT");
  // What makes no work is answered.
  EXPECT_TRUE(rig.client->ListSessions().ok());
  EXPECT_TRUE(rig.client->CheckHealth("").ok());
}

absl::StatusOr<std::string> Create(Rig& rig, const std::string& id,
                                   const std::string& request_id, int ttl = 0) {
  v1::CreateSessionRequest request;
  request.set_session_id(id);
  request.set_request_id(request_id);
  if (ttl > 0) request.mutable_session()->mutable_ttl()->set_seconds(ttl);
  BoundedContext context;
  v1::Session session;
  const grpc::Status status = rig.sessions->CreateSession(&context, request, &session);
  if (!status.ok()) return client::FromGrpcStatus(status);
  return session.name();
}

TEST(RequestId, MakesCreateSessionIdempotent) {
  Rig rig;
  const auto drawn = Create(rig, "", kUuid);
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_EQ(*Create(rig, "", kUuid), *drawn);
  EXPECT_EQ(*Create(rig, drawn->substr(9), kUuid), *drawn);
  EXPECT_EQ(rig.engine->Stats().sessions, 1);
  EXPECT_EQ(ReasonOf(Create(rig, "other", kUuid).status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(ReasonOf(Create(rig, "", kUuid, 9).status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(ReasonOf(Create(rig, drawn->substr(9), "").status()), "SESSION_EXISTS");
  ASSERT_TRUE(rig.client->DeleteSession(*drawn).ok());
  const auto again = Create(rig, "", kUuid);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_NE(*again, *drawn);
}

TEST(RequestId, ErrorNamesTheSessionThatItMade) {
  Rig rig;
  ASSERT_TRUE(Create(rig, "x", kUuid).ok());
  for (const absl::Status& status :
       {Create(rig, "", kUuid, 9).status(), Create(rig, "y", kUuid).status()}) {
    ASSERT_EQ(ReasonOf(status), "REQUEST_ID_REUSED");
    EXPECT_EQ(GetErrorDetail(status)->metadata["resource"], "sessions/x");
  }
}

TEST(RequestId, ASessionTakesARequestOnce) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  v1::GenerateRequest request = Ask(1, 5);
  request.set_session("sessions/s");
  request.set_request_id(kUuid);
  const Answer first = Ended(rig, request);
  EXPECT_TRUE(first.status.ok());
  EXPECT_EQ(Ended(rig, request).tokens, first.tokens);
  EXPECT_EQ(rig.client->GetSession("s")->position, 6);
  v1::GenerateRequest other = request;
  other.mutable_stopping()->set_max_tokens(6);
  EXPECT_EQ(Ended(rig, other).reason, "REQUEST_ID_REUSED");
  other = request;
  other.clear_request_id();
  EXPECT_TRUE(Ended(rig, other).status.ok());
  const Answer repeated = Ended(rig, request);
  EXPECT_EQ(repeated.status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(repeated.reason, "REQUEST_REPEATED");
}

TEST(RequestId, ALostStreamGoesOnWhereItWas) {
  const auto observed = std::make_shared<ObservedCalls>();
  Rig rig({.service = {.observer = observed}});
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  v1::GenerateRequest request = Ask(1, 60);
  request.mutable_sampling()->set_seed(5);
  const Answer all = Ended(rig, request);
  ASSERT_EQ(all.tokens.size(), 60u);
  request.set_session("sessions/s");
  request.set_request_id(kUuid);
  std::vector<int32_t> tokens;
  {
    rig.decoder.Allow(20);
    BoundedContext context;
    auto reader = rig.generation->Generate(&context, request);
    v1::GenerateResponse response;
    while (tokens.size() < 5 && reader->Read(&response)) {
      tokens.insert(tokens.end(), response.tokens().begin(), response.tokens().end());
    }
    context.TryCancel();
    reader->Finish();
    // The server knows of it before the model goes on.
    ASSERT_TRUE(Eventually([&] {
      const auto ended = observed->Ended();
      return std::any_of(ended.begin(), ended.end(), [](const AccessRecord& call) {
        return call.status == absl::StatusCode::kCancelled;
      });
    }));
    rig.decoder.AllowAll();
  }
  ASSERT_TRUE(
      Eventually([&] { return rig.client->GetSession("s")->state == "DETACHED"; }));
  v1::GenerateRequest resume;
  resume.set_session("sessions/s");
  resume.set_request_id(kUuid);
  resume.set_resume_after_index(static_cast<int64_t>(tokens.size()));
  const Answer rest = Ended(rig, resume);
  ASSERT_TRUE(rest.status.ok()) << rest.status.error_message();
  tokens.insert(tokens.end(), rest.tokens.begin(), rest.tokens.end());
  EXPECT_EQ(tokens, all.tokens);
  EXPECT_EQ(rig.client->GetSession("s")->state, "IDLE");
  resume.set_resume_after_index(100);
  EXPECT_EQ(Ended(rig, resume).status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  resume.set_request_id("11234567-89ab-cdef-0123-456789abcdef");
  EXPECT_EQ(Ended(rig, resume).reason, "REQUEST_UNKNOWN");
  request.set_request_id("21234567-89ab-cdef-0123-456789abcdef");
  request.set_expected_token_count(60);
  EXPECT_EQ(Ended(rig, request).reason, "TOKEN_COUNT_MISMATCH");
  request.set_expected_token_count(61);
  EXPECT_TRUE(Ended(rig, request).status.ok());
}

TEST(RequestId, DecidesTheSeedWithoutASession) {
  Rig rig;
  v1::GenerateRequest request = Ask(1, 40);
  request.set_request_id(kUuid);
  const Answer first = Ended(rig, request);
  ASSERT_TRUE(first.status.ok());
  EXPECT_EQ(Ended(rig, request).tokens, first.tokens);
  request.set_request_id("11234567-89ab-cdef-0123-456789abcdef");
  EXPECT_NE(Ended(rig, request).tokens, first.tokens);
  request.mutable_sampling()->set_seed(7);
  EXPECT_EQ(Ended(rig, request).tokens,
            ToyContinuation(ToyState::kFixedAndAppend, {1}, 40, {.seed = 7}));
}

namespace reflection = grpc::reflection::v1alpha;

// The answer to one request on a stream of its own.
grpc::Status Reflect(Rig& rig, const reflection::ServerReflectionRequest& request,
                     reflection::ServerReflectionResponse& response) {
  BoundedContext context;
  const auto stub = reflection::ServerReflection::NewStub(rig.channel);
  const auto stream = stub->ServerReflectionInfo(&context);
  stream->Write(request);
  stream->WritesDone();
  stream->Read(&response);
  return stream->Finish();
}

grpc::Status ListServices(Rig& rig, std::vector<std::string>& names) {
  reflection::ServerReflectionRequest request;
  request.set_list_services("*");
  reflection::ServerReflectionResponse response;
  const grpc::Status status = Reflect(rig, request, response);
  for (const auto& service : response.list_services_response().service()) {
    names.push_back(service.name());
  }
  return status;
}

// Whether an empty message gets an answer, or another status than UNIMPLEMENTED.
bool IsServed(Rig& rig, const google::protobuf::MethodDescriptor& method) {
  BoundedContext context;
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(rig.channel);
  const auto call = stub.PrepareCall(
      &context, StrCat("/", method.service()->full_name(), "/", method.name()), &queue);
  const auto await = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  await();
  const grpc::Slice empty("");
  call->WriteLast(grpc::ByteBuffer(&empty, 1), {}, nullptr);
  await();
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  const bool answered = await();
  // A watch does not end by itself.
  if (answered) context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  await();
  return answered || status.error_code() != grpc::StatusCode::UNIMPLEMENTED;
}

TEST(Reflection, ListsWhatIsServedAndNothingElse) {
  Rig rig;
  std::vector<std::string> names;
  EXPECT_TRUE(ListServices(rig, names).ok());
  EXPECT_THAT(names, ::testing::ElementsAre("grpc.health.v1.Health",
                                            "grpc.reflection.v1alpha.ServerReflection",
                                            "mnemon.v1.Admin", "mnemon.v1.Generation",
                                            "mnemon.v1.Models", "mnemon.v1.Sessions"));
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  for (const char* file :
       {"grpc/health/v1/health.proto", "grpc/reflection/v1alpha/reflection.proto",
        "mnemon/v1/admin.proto", "mnemon/v1/generation.proto", "mnemon/v1/models.proto",
        "mnemon/v1/sessions.proto"}) {
    const auto* service = pool->FindFileByName(file)->service(0);
    bool served = false;
    for (int i = 0; i < service->method_count(); ++i) {
      served = served || IsServed(rig, *service->method(i));
    }
    const bool listed =
        std::find(names.begin(), names.end(), service->full_name()) != names.end();
    EXPECT_EQ(served, listed) << service->full_name();
  }
}

// A client builds every listed service out of what it is told.
TEST(Reflection, DescribesWhatItLists) {
  Rig rig;
  std::vector<std::string> names;
  EXPECT_TRUE(ListServices(rig, names).ok());
  for (const std::string& name : names) {
    reflection::ServerReflectionRequest request;
    request.set_file_containing_symbol(name);
    reflection::ServerReflectionResponse response;
    EXPECT_TRUE(Reflect(rig, request, response).ok());
    google::protobuf::DescriptorPool pool;
    for (const std::string& bytes :
         response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      ASSERT_TRUE(file.ParseFromString(bytes));
      EXPECT_NE(pool.BuildFile(file), nullptr) << file.name();
    }
    EXPECT_NE(pool.FindServiceByName(name), nullptr) << name;
    request.set_file_by_filename("mnemon/v1/sampling.proto");
    EXPECT_TRUE(Reflect(rig, request, response).ok());
    EXPECT_EQ(response.file_descriptor_response().file_descriptor_proto_size(), 3)
        << "the file and its two imports";
  }
}

TEST(Reflection, WhatIsNotThereIsNotFound) {
  Rig rig;
  reflection::ServerReflectionResponse response;
  const auto error = [&](const reflection::ServerReflectionRequest& request) {
    EXPECT_TRUE(Reflect(rig, request, response).ok());
    return response.error_response().error_code();
  };
  reflection::ServerReflectionRequest request;
  EXPECT_EQ(error(request), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_file_by_filename("no.proto");
  EXPECT_EQ(error(request), grpc::StatusCode::NOT_FOUND);
  request.set_file_containing_symbol("no.Symbol");
  EXPECT_EQ(error(request), grpc::StatusCode::NOT_FOUND);
  request.mutable_file_containing_extension()->set_containing_type(
      "mnemon.v1.GenerateRequest");
  EXPECT_EQ(error(request), grpc::StatusCode::NOT_FOUND);
  request.set_all_extension_numbers_of_type("no.Symbol");
  EXPECT_EQ(error(request), grpc::StatusCode::NOT_FOUND);
  request.set_all_extension_numbers_of_type("mnemon.v1.GenerateRequest");
  EXPECT_EQ(error(request), 0);
  EXPECT_EQ(response.all_extension_numbers_response().base_type_name(),
            "mnemon.v1.GenerateRequest");
}

// One more stream than there may be.
TEST(Reflection, StreamsAreLimited) {
  Rig rig;
  const auto stub = reflection::ServerReflection::NewStub(rig.channel);
  reflection::ServerReflectionRequest request;
  request.set_list_services("*");
  reflection::ServerReflectionResponse response;
  struct Stream {
    BoundedContext context;
    std::unique_ptr<grpc::ClientReaderWriter<reflection::ServerReflectionRequest,
                                             reflection::ServerReflectionResponse>>
        call;
  };
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 64; ++i) {
    Stream& stream = *streams.emplace_back(std::make_unique<Stream>());
    stream.call = stub->ServerReflectionInfo(&stream.context);
    ASSERT_TRUE(stream.call->Write(request) && stream.call->Read(&response)) << i;
  }
  const grpc::Status status = Reflect(rig, request, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_FALSE(status.error_details().empty());
  streams.back()->call->WritesDone();
  EXPECT_TRUE(streams.back()->call->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return Reflect(rig, request, response).ok(); }));
  for (const auto& stream : streams) stream->context.TryCancel();
  streams.pop_back();
  for (const auto& stream : streams) stream->call->Finish();
}

// Threads of this process.
size_t Threads() {
  size_t threads = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task")) {
    ++threads;
  }
  return threads;
}

// gRPC's own reflection would serve each stream with a thread.
TEST(Reflection, IdleStreamsTakeFewThreads) {
  const auto observed = std::make_shared<ObservedCalls>();
  Rig rig({.service = {.observer = observed}});
  constexpr int kStreams = 200;
  EXPECT_TRUE(Ended(rig, Ask(1, 5)).status.ok());
  const size_t before = Threads();
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
    grpc::Status status;
  };
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(rig.channel);
  const auto await = [&](int events) {
    const auto deadline = std::chrono::system_clock::now() + kPatience;
    void* tag = nullptr;
    bool ok = false;
    for (; events > 0; --events) {
      if (queue.AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) {
        return false;
      }
    }
    return true;
  };
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < kStreams; ++i) {
    Stream& stream = *streams.emplace_back(std::make_unique<Stream>());
    stream.call = stub.PrepareCall(
        &stream.context,
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
    stream.call->StartCall(nullptr);
  }
  ASSERT_TRUE(await(kStreams));
  ASSERT_TRUE(Eventually([&] {
    int started = 0;
    for (const auto& [method, count] : observed->Started()) started += count;
    return started == kStreams + 1;
  })) << ::testing::PrintToString(observed->Started());
  EXPECT_TRUE(Ended(rig, Ask(1, 5)).status.ok());
  EXPECT_LT(Threads(), before + kStreams / 4);
  for (const auto& stream : streams) {
    stream->context.TryCancel();
    stream->call->Finish(&stream->status, nullptr);
  }
  ASSERT_TRUE(await(kStreams));
  EXPECT_TRUE(Eventually([&] {
    std::vector<std::string> names;
    return ListServices(rig, names).ok() && !names.empty();
  }));
}

TEST(Reflection, CanBeOff) {
  Rig rig({.rpc = {.reflection = false}});
  std::vector<std::string> names;
  EXPECT_EQ(ListServices(rig, names).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

}  // namespace
}  // namespace mnemon
