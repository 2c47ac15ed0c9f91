// SPDX-License-Identifier: MIT
// What goes wrong, or ends a call, between its registration and its first work.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "base/error.h"
#include "base/strings.h"
#include "client/status.h"
#include "gtest/gtest.h"
#include "mnemon/v1/generation.grpc.pb.h"
#include "server/rpc/call_context.h"
#include "server/rpc/services.h"
#include "tests/fakes/patience.h"
#include "tests/fakes/toy_decoder.h"
#include "tests/fakes/toy_predictor.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

// Calls `on_read` where admission reads it: when a call is registered and not begun.
class AdmissionClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override {
    if (on_read) on_read();
    return Real().Now();
  }
  std::chrono::system_clock::time_point WallNow() const override {
    return Real().WallNow();
  }

  std::function<void()> on_read;  // set while no call is open
};

// The services alone, with their parts at hand.
class CallStart : public ::testing::Test {
 protected:
  CallStart() {
    EngineModel toy{.facts = {.name = "toy", .vocab = ToyDecoder::kVocab},
                    .decoder = &decoder_};
    EngineModel encoder{.facts = {.name = "encoder", .vocab = ToyPredictor::kVocab},
                        .predictor = &predictor_};
    engine_ = *Engine::Create({toy, encoder}, {});
    services_ = MakeMethodServices({.engine = *engine_,
                                    .calls = calls_,
                                    .admission = admission_,
                                    .handlers = handlers_});
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    for (const auto& service : services_) builder.RegisterService(service.get());
    AddCallContexts(access_log_, connections_, builder);
    server_ = builder.BuildAndStart();
    stub_ = v1::Generation::NewStub(grpc::CreateChannel(
        StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }
  ~CallStart() override {
    predictor_.Finish();
    EXPECT_TRUE(NoCallIsOpen());
    server_->Shutdown();
    server_->Wait();
  }

  bool NoCallIsOpen() {
    return calls_.WaitDrained(OpenCall::Time::clock::now() + kPatience);
  }

  absl::Status Score() {
    BoundedContext context;
    auto stream = stub_->Score(&context);
    v1::ScoreRequest open;
    open.mutable_open()->set_model("models/toy");
    stream->Write(open);
    stream->WritesDone();
    for (v1::ScoreResponse response; stream->Read(&response);) {
    }
    return client::FromGrpcStatus(stream->Finish());
  }

  absl::Status Generate() {
    BoundedContext context;
    v1::GenerateRequest request;
    request.set_model("models/toy");
    request.mutable_prompt()->mutable_tokens()->add_ids(1);
    request.mutable_stopping()->set_max_tokens(1);
    auto reader = stub_->Generate(&context, request);
    for (v1::GenerateResponse response; reader->Read(&response);) {
    }
    return client::FromGrpcStatus(reader->Finish());
  }

  absl::Status Predict() {
    BoundedContext context;
    v1::PredictRequest request;
    request.set_model("models/encoder");
    request.add_sequences()->add_ids(1);
    v1::PredictResponse response;
    return client::FromGrpcStatus(stub_->Predict(&context, request, &response));
  }

  ToyDecoder decoder_{ToyState::kFixed};
  ToyPredictor predictor_{ToyPredictor::kEndless};
  AdmissionClock clock_;
  std::unique_ptr<Engine> engine_;
  const AccessLog access_log_{nullptr};
  ConnectionTable connections_{1, 1};
  OpenCalls calls_{Clock::Real()};
  Admission admission_{1e6, clock_};
  HandlerThreads handlers_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Generation::Stub> stub_;
};

TEST_F(CallStart, OutOfMemoryInAdmissionEndsTheCall) {
  clock_.on_read = [] { throw std::bad_alloc(); };
  for (const absl::Status& status : {Score(), Generate(), Predict()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(GetErrorDetail(status).value_or(ErrorDetail{}).reason, "OUT_OF_MEMORY");
  }
  EXPECT_TRUE(NoCallIsOpen());
}

// A shutdown may come at any time.
TEST_F(CallStart, AStopBeforeTheWorkIsNotLost) {
  clock_.on_read = [this] { calls_.StopAll(absl::AbortedError("stopped early")); };
  for (const absl::Status& status : {Predict(), Score(), Generate()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  }
}

}  // namespace
}  // namespace mnemon
