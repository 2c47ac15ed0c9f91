// SPDX-License-Identifier: MIT
// Wrong requests: code, reason and field of each, and later parts of the API.
#include <cmath>
#include <future>
#include <limits>
#include <set>

#include <grpcpp/generic/generic_stub.h>

#include "base/error.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/fakes/captured_log.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

v1::GenerateRequest Valid() {
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->add_ids(1);
  request.mutable_stopping()->set_max_tokens(3);
  return request;
}

grpc::Status CallGenerate(Rig& rig, const v1::GenerateRequest& request) {
  BoundedContext context;
  auto reader = rig.generation->Generate(&context, request);
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  return reader->Finish();
}

struct GenerateCase {
  std::string field;  // empty: the call works
  std::function<void(v1::GenerateRequest&)> change;
  std::string reason = "INVALID_VALUE";
  grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT;
};

void AskIntrospection(const std::string& path, v1::GenerateRequest& r) {
  r.mutable_output()->mutable_introspection()->add_paths(path);
}

const std::vector<GenerateCase>& WrongValues() {
  using R = v1::GenerateRequest;
  static const std::vector<GenerateCase> cases = {
      {"sampling.temperature", [](R& r) { r.mutable_sampling()->set_temperature(-1); }},
      {"sampling.temperature",
       [](R& r) { r.mutable_sampling()->set_temperature(kNaN); }},
      {"sampling.temperature",
       [](R& r) { r.mutable_sampling()->set_temperature(kInfinity); }},
      {"", [](R& r) { r.mutable_sampling()->set_temperature(1e-45); }},
      {"", [](R& r) { r.mutable_sampling()->set_temperature(0); }},
      {"sampling.top_k", [](R& r) { r.mutable_sampling()->set_top_k(-1); }},
      {"on_disconnect",
       [](R& r) { r.set_on_disconnect(static_cast<v1::OnDisconnect>(9)); }},
      {"session", [](R& r) { r.set_resume_after_index(0); }},
      {"", [](R& r) { r.mutable_sampling()->set_top_k(0); }},
      {"", [](R& r) { r.mutable_sampling()->set_top_k(1 << 30); }},
      {"sampling.top_p", [](R& r) { r.mutable_sampling()->set_top_p(0); }},
      {"sampling.top_p", [](R& r) { r.mutable_sampling()->set_top_p(1.0001); }},
      {"sampling.top_p", [](R& r) { r.mutable_sampling()->set_top_p(kNaN); }},
      {"request_id", [](R& r) { r.set_request_id("x"); }},
      {"request_id", [](R& r) { r.set_request_id(std::string(100000, 'a')); }},
      {"", [](R& r) { r.set_request_id("01234567-89AB-cdef-0123-456789abcdef"); }},
      {"sampling.min_p", [](R& r) { r.mutable_sampling()->set_min_p(-0.1); }},
      {"sampling.min_p", [](R& r) { r.mutable_sampling()->set_min_p(kNaN); }},
      {"", [](R& r) { r.mutable_sampling()->set_min_p(1); }},
      {"sampling.typical_p", [](R& r) { r.mutable_sampling()->set_typical_p(0); }},
      {"sampling.typical_p", [](R& r) { r.mutable_sampling()->set_typical_p(kNaN); }},
      {"", [](R& r) { r.mutable_sampling()->set_typical_p(0.5); }},
      {"sampling.repetition_penalty",
       [](R& r) { r.mutable_sampling()->set_repetition_penalty(0); }},
      {"sampling.repetition_penalty",
       [](R& r) { r.mutable_sampling()->set_repetition_penalty(1e300); }},
      {"", [](R& r) { r.mutable_sampling()->set_repetition_penalty(1.3); }},
      {"sampling.frequency_penalty",
       [](R& r) { r.mutable_sampling()->set_frequency_penalty(kNaN); }},
      {"sampling.frequency_penalty",
       [](R& r) { r.mutable_sampling()->set_frequency_penalty(-1e9); }},
      {"", [](R& r) { r.mutable_sampling()->set_frequency_penalty(-2); }},
      {"sampling.presence_penalty",
       [](R& r) { r.mutable_sampling()->set_presence_penalty(kInfinity); }},
      {"", [](R& r) { r.mutable_sampling()->set_presence_penalty(2); }},
      {"sampling.penalty_window_tokens",
       [](R& r) { r.mutable_sampling()->set_penalty_window_tokens(-1); }},
      {"sampling.penalty_window_tokens",
       [](R& r) { r.mutable_sampling()->set_penalty_window_tokens(INT32_MAX); }},
      {"", [](R& r) { r.mutable_sampling()->set_penalty_window_tokens(0); }},
      {"sampling.logit_bias[1]",
       [](R& r) {
         r.mutable_sampling()->add_logit_bias();
         r.mutable_sampling()->add_logit_bias()->set_token_id(40);
       }},
      {"sampling.logit_bias[0]",
       [](R& r) {
         r.mutable_sampling()->add_logit_bias()->set_bias(static_cast<float>(kNaN));
       }},
      {"sampling.logit_bias",
       [](R& r) {
         for (int i = 0; i < 100000; ++i) r.mutable_sampling()->add_logit_bias();
       }},
      {"sampling.logit_bias",
       [](R& r) {
         for (int i = 0; i < ToyDecoder::kVocab; ++i) {
           v1::LogitBias& entry = *r.mutable_sampling()->add_logit_bias();
           entry.set_token_id(i);
           entry.set_bias(-static_cast<float>(kInfinity));
         }
       },
       "NO_TOKEN_ALLOWED"},
      {"stopping.stop_strings[1]",
       [](R& r) {
         r.mutable_stopping()->add_stop_strings("a");
         r.mutable_stopping()->add_stop_strings("");
       }},
      {"stopping.stop_strings[0]",
       [](R& r) { r.mutable_stopping()->add_stop_strings(std::string(257, 'a')); }},
      {"stopping.stop_strings",
       [](R& r) {
         for (int i = 0; i < 100000; ++i) r.mutable_stopping()->add_stop_strings("a");
       }},
      {"", [](R& r) { r.mutable_stopping()->add_stop_strings("longer than all"); }},
      {"stopping.time_limit", [](R& r) { r.mutable_stopping()->mutable_time_limit(); }},
      {"stopping.time_limit",
       [](R& r) { r.mutable_stopping()->mutable_time_limit()->set_seconds(-1); }},
      {"stopping.time_limit",
       [](R& r) {
         r.mutable_stopping()->mutable_time_limit()->set_seconds(INT64_MAX);
       }},
      {"", [](R& r) { r.mutable_stopping()->mutable_time_limit()->set_seconds(9); }},
      {"", [](R& r) { r.mutable_output()->set_logprobs(true); }},
      {"output.top_candidate_count",
       [](R& r) { r.mutable_output()->set_top_candidate_count(-1); }},
      {"output.top_candidate_count",
       [](R& r) { r.mutable_output()->set_top_candidate_count(40); }},
      {"", [](R& r) { r.mutable_output()->set_top_candidate_count(20); }},
      {"output.candidate_ids[1]",
       [](R& r) {
         r.mutable_output()->add_candidate_ids(0);
         r.mutable_output()->add_candidate_ids(40);
       }},
      {"output.candidate_ids",
       [](R& r) {
         for (int i = 0; i < 101; ++i) r.mutable_output()->add_candidate_ids(0);
       }},
      {"", [](R& r) { r.mutable_output()->add_candidate_ids(39); }},
      {"", [](R& r) { r.mutable_output()->mutable_introspection(); }},
      {"", [](R& r) { AskIntrospection("hidden_state", r); }},
      {"output.introspection",
       [](R& r) {
         AskIntrospection("memory_reads", r);
         AskIntrospection("memory_reads.weights", r);
       }},
      {"output.introspection", [](R& r) { AskIntrospection("index", r); }},
      {"output.introspection",
       [](R& r) { AskIntrospection(std::string(1 << 20, 'a'), r); }},
      {"", [](R& r) { r.mutable_sampling()->set_seed(INT64_MIN); }},
      {"", [](R& r) { r.mutable_sampling()->set_seed(INT64_MAX); }},
      {"stopping.max_tokens", [](R& r) { r.mutable_stopping()->set_max_tokens(-1); }},
      {"stopping.max_tokens",
       [](R& r) { r.mutable_stopping()->set_max_tokens(INT32_MAX); }},
      {"stopping.stop_token_ids[1]",
       [](R& r) {
         r.mutable_stopping()->add_stop_token_ids(3);
         r.mutable_stopping()->add_stop_token_ids(40);
       }},
      {"stopping.stop_token_ids",
       [](R& r) {
         for (int i = 0; i < 100000; ++i) r.mutable_stopping()->add_stop_token_ids(1);
       }},
      {"prompt.tokens.ids[3]",
       [](R& r) {
         for (int id : {1, 2, -1}) r.mutable_prompt()->mutable_tokens()->add_ids(id);
       }},
      {"prompt.tokens.ids[1]",
       [](R& r) { r.mutable_prompt()->mutable_tokens()->add_ids(40); }},
      {"prompt.tokens.ids[1]",
       [](R& r) { r.mutable_prompt()->mutable_tokens()->add_ids(INT32_MAX); }},
      {"prompt.tokens.ids",
       [](R& r) { r.mutable_prompt()->mutable_tokens()->clear_ids(); }},
      {"prompt", [](R& r) { r.clear_prompt(); }},
      {"prompt.text", [](R& r) { r.mutable_prompt()->set_text(""); }},
      {"prompt.text", [](R& r) { r.mutable_prompt()->set_text("ab\xc3\xa0"); },
       "UNKNOWN_CHARACTER"},
      {"session", [](R& r) { r.set_session("s"); }},
      {"session", [](R& r) { r.set_session("sessions/"); }},
      {"session", [](R& r) { r.set_session("sessions/../x"); }},
      {"session", [](R& r) { r.set_session("sessions/A"); }},
      {"session", [](R& r) { r.set_session("sessions/a\nb"); }},
      {"session", [](R& r) { r.set_session("sessions/a%2e"); }},
      {"session", [](R& r) { r.set_session("sessions/" + std::string(64, 'a')); }},
      {"session", [](R& r) { r.set_session("sessions/" + std::string(1 << 20, 'a')); }},
      {"session", [](R& r) { r.set_session(std::string("sessions/a\0b", 12)); }},
      {"model", [](R& r) { r.set_model("toy"); }},
      {"", [](R& r) { r.set_model("models/toy"); }},
      {"priority", [](R& r) { r.set_priority(static_cast<v1::Priority>(77)); }},
      {"", [](R& r) { r.set_priority(v1::INTERACTIVE); }},
  };
  return cases;
}

const std::vector<GenerateCase>& LaterFields() {
  using R = v1::GenerateRequest;
  constexpr char kLater[] = "FIELD_UNIMPLEMENTED";
  constexpr auto kCode = grpc::StatusCode::UNIMPLEMENTED;
  static const std::vector<GenerateCase> cases = {
      {"priority", [](R& r) { r.set_priority(v1::BATCH); }, kLater, kCode},
      {"sampling.constraint",
       [](R& r) { r.mutable_sampling()->mutable_constraint()->set_regex("a"); }, kLater,
       kCode},
      {"output.prompt_logprobs",
       [](R& r) { r.mutable_output()->set_prompt_logprobs(false); }, kLater, kCode},
  };
  return cases;
}

void Check(Rig& rig, const GenerateCase& c) {
  v1::GenerateRequest request = Valid();
  c.change(request);
  const grpc::Status status = CallGenerate(rig, request);
  if (c.field.empty()) {
    EXPECT_TRUE(status.ok()) << status.error_message();
    return;
  }
  SCOPED_TRACE(c.field + ": " + status.error_message());
  EXPECT_EQ(status.error_code(), c.code);
  EXPECT_LT(status.error_message().size(), 1000u);
  const auto detail = GetErrorDetail(client::FromGrpcStatus(status));
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, c.reason);
  EXPECT_EQ(detail->field, c.field);
}

TEST(GenerateErrors, WrongValuesNameTheField) {
  Rig rig;
  for (const GenerateCase& c : WrongValues()) Check(rig, c);
  EXPECT_TRUE(CallGenerate(rig, Valid()).ok());
}

TEST(GenerateErrors, LaterFieldsAreRefusedAndNotIgnored) {
  Rig rig;
  for (const GenerateCase& c : LaterFields()) Check(rig, c);
}

// Every optional or repeated field is in one of the tables or known to work: a field
// added to the proto cannot be ignored by oversight.
TEST(GenerateErrors, TablesCoverTheWholeRequest) {
  std::set<std::string> seen;
  for (const auto* cases : {&WrongValues(), &LaterFields()}) {
    for (const GenerateCase& c : *cases)
      seen.insert(c.field.substr(0, c.field.find('[')));
  }
  seen.insert("sampling.seed");
  seen.insert("output.logprobs");
  seen.insert("stopping.ignore_eos");
  for (const char* of_sessions : {"resume_after_index", "expected_token_count"}) {
    seen.insert(of_sessions);
  }
  const auto check = [&](const google::protobuf::Descriptor* type,
                         const std::string& prefix) {
    for (int i = 0; i < type->field_count(); ++i) {
      const std::string& name = type->field(i)->name();
      if (prefix.empty() &&
          (name == "sampling" || name == "stopping" || name == "output")) {
        continue;
      }
      EXPECT_TRUE(seen.contains(prefix + name)) << prefix << name;
    }
  };
  check(v1::GenerateRequest::descriptor(), "");
  check(v1::Sampling::descriptor(), "sampling.");
  check(v1::Stopping::descriptor(), "stopping.");
  check(v1::OutputOptions::descriptor(), "output.");
}

template <class Message>
Message Detail(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  Message message;
  int found = 0;
  for (const auto& any : details.details()) found += any.UnpackTo(&message);
  EXPECT_EQ(found, 1) << message.GetTypeName();
  return message;
}

TEST(GenerateErrors, AbsentSessionsAndModels) {
  Rig rig;
  v1::GenerateRequest request = Valid();
  request.set_session("sessions/nobody");
  grpc::Status status = CallGenerate(rig, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Detail<google::rpc::ErrorInfo>(status).reason(), "SESSION_NOT_FOUND");
  EXPECT_EQ(Detail<google::rpc::ErrorInfo>(status).domain(), "mnemon.dev");
  EXPECT_EQ(Detail<google::rpc::ResourceInfo>(status).resource_type(),
            "mnemon.dev/Session");
  EXPECT_EQ(Detail<google::rpc::ResourceInfo>(status).resource_name(),
            "sessions/nobody");

  request = Valid();
  request.set_model("models/other");
  status = CallGenerate(rig, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Detail<google::rpc::ErrorInfo>(status).reason(), "MODEL_NOT_FOUND");
  EXPECT_EQ(Detail<google::rpc::ResourceInfo>(status).resource_type(),
            "mnemon.dev/Model");
  EXPECT_EQ(Detail<google::rpc::ResourceInfo>(status).resource_name(), "models/other");
}

TEST(GenerateErrors, SeveralModelsNeedAName) {
  Rig rig({.models = {"a", "b"}});
  EXPECT_EQ(CallGenerate(rig, Valid()).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  v1::GenerateRequest request = Valid();
  request.set_model("models/b");
  EXPECT_TRUE(CallGenerate(rig, request).ok());
  ASSERT_TRUE(rig.client->CreateSession("s", "a").ok());
  request.set_session("sessions/s");
  EXPECT_EQ(CallGenerate(rig, request).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  request.clear_model();
  EXPECT_TRUE(CallGenerate(rig, request).ok());
}

TEST(GenerateErrors, BusySessionIsAborted) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  rig.decoder.Allow(0);
  v1::GenerateRequest request = Valid();
  request.set_session("sessions/s");
  BoundedContext context;
  auto first = rig.generation->Generate(&context, request);
  rig.decoder.AwaitHeld();
  const grpc::Status status = CallGenerate(rig, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(Detail<google::rpc::ErrorInfo>(status).reason(), "SESSION_BUSY");
  EXPECT_EQ(rig.client->GetSession("s")->state, "RUNNING");
  rig.decoder.AllowAll();
  v1::GenerateResponse response;
  while (first->Read(&response)) {
  }
  EXPECT_TRUE(first->Finish().ok());
}

TEST(GenerateErrors, FullQueueSaysWhenToRetry) {
  Rig rig({.engine = {.running = 1, .max_queue = 1}});
  rig.decoder.Allow(0);
  std::vector<std::unique_ptr<BoundedContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  const auto start = [&] {
    contexts.push_back(std::make_unique<BoundedContext>());
    readers.push_back(rig.generation->Generate(contexts.back().get(), Valid()));
  };
  start();
  rig.decoder.AwaitHeld();
  start();
  ASSERT_TRUE(Eventually([&] { return rig.engine->Stats().queued == 1; }));
  BoundedContext context;
  auto reader = rig.generation->Generate(&context, Valid());
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Detail<google::rpc::QuotaFailure>(status).violations(0).subject(),
            "QUEUE_FULL");
  EXPECT_GT(Detail<google::rpc::RetryInfo>(status).retry_delay().nanos() +
                Detail<google::rpc::RetryInfo>(status).retry_delay().seconds(),
            0);
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
  rig.decoder.AllowAll();
  for (auto& open : readers) {
    while (open->Read(&response)) {
    }
    EXPECT_TRUE(open->Finish().ok());
  }
}

TEST(GenerateErrors, NoHeadersBeforeTheFirstMessage) {
  Rig rig;
  rig.decoder.Allow(0);
  BoundedContext context;
  auto reader = rig.generation->Generate(&context, Valid());
  std::future<void> headers =
      std::async(std::launch::async, [&] { reader->WaitForInitialMetadata(); });
  rig.decoder.AwaitHeld();
  EXPECT_EQ(headers.wait_for(std::chrono::milliseconds(100)),
            std::future_status::timeout);
  rig.decoder.AllowAll();
  headers.get();
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
}

TEST(GenerateErrors, TooLargeMessageIsRefused) {
  Rig rig;
  v1::GenerateRequest request = Valid();
  request.mutable_prompt()->set_text(std::string((4 << 20) + 1, 'a'));
  EXPECT_EQ(CallGenerate(rig, request).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  request.mutable_prompt()->set_text(std::string(100000, 'a'));
  EXPECT_EQ(CallGenerate(rig, request).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(CallGenerate(rig, Valid()).ok());
}

TEST(GenerateErrors, InvalidUtf8IsRefusedWithoutAFlood) {
  Rig rig;
  // Field 1 with one byte that is no UTF-8.
  const grpc::Slice slice("\x0a\x01\xff");
  const grpc::ByteBuffer request(&slice, 1);
  grpc::GenericStub stub(rig.channel);
  const std::string log = CaptureLog([&] {
    for (int i = 0; i < 200; ++i) {
      BoundedContext context;
      grpc::CompletionQueue queue;
      grpc::ByteBuffer response;
      grpc::Status status;
      void* tag = nullptr;
      bool ok = false;
      auto call = stub.PrepareUnaryCall(&context, "/mnemon.v1.Sessions/GetSession",
                                        request, &queue);
      call->StartCall();
      call->Finish(&response, &status, nullptr);
      ASSERT_TRUE(queue.Next(&tag, &ok));
      EXPECT_FALSE(status.ok());
    }
  });
  // Beside the bounded lines of the calls themselves.
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 100) << log;
  EXPECT_TRUE(CallGenerate(rig, Valid()).ok());
}

}  // namespace
}  // namespace mnemon
