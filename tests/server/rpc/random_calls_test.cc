// SPDX-License-Identifier: MIT
// Calls of every kind at random, right and wrong, from several threads: the server
// lives, answers only what its status table lists, and keeps no memory.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/fakes/patience.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

constexpr int kThreads = 8;
constexpr int kNames = 6;

int64_t ResidentBytes() {
  int64_t size = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Statuses that a caller can bring about.
bool Expected(grpc::StatusCode code) {
  static const std::set<grpc::StatusCode> codes = {
      grpc::StatusCode::OK,
      grpc::StatusCode::CANCELLED,
      grpc::StatusCode::INVALID_ARGUMENT,
      grpc::StatusCode::DEADLINE_EXCEEDED,
      grpc::StatusCode::NOT_FOUND,
      grpc::StatusCode::ALREADY_EXISTS,
      grpc::StatusCode::RESOURCE_EXHAUSTED,
      grpc::StatusCode::FAILED_PRECONDITION,
      grpc::StatusCode::ABORTED,
      grpc::StatusCode::OUT_OF_RANGE,
      grpc::StatusCode::DATA_LOSS,  // of a snapshot that is none
      grpc::StatusCode::UNIMPLEMENTED};
  return codes.contains(code);
}

class Caller {
 public:
  Caller(Rig& rig, uint32_t seed)
      : rig_(rig),
        random_(seed),
        health_(grpc::health::v1::Health::NewStub(rig.channel)) {}

  void Call() {
    switch (Below(18)) {
      case 0:
      case 1:
        return Create();
      case 2:
        return Delete();
      case 3:
        return Unary(*rig_.sessions, &v1::Sessions::Stub::GetSession,
                     [&](v1::GetSessionRequest& r) { r.set_name(Session()); });
      case 4:
        return Unary(*rig_.sessions, &v1::Sessions::Stub::ListSessions,
                     [&](v1::ListSessionsRequest& r) {
                       r.set_page_size(static_cast<int32_t>(Below(5)) - 1);
                       if (Below(4) == 0) r.set_page_token("junk");
                     });
      case 5:
        return Text();
      case 6:
        return Models();
      case 7:
        return Later();
      case 8:
      case 9:
        return Score();
      case 10:
      case 11:
      case 12:
      case 13:
        return OnSession();
      default:
        return Generate();
    }
  }

 private:
  uint32_t Below(uint32_t end) { return random_() % end; }
  std::string Session() { return StrCat("sessions/s", Below(kNames)); }
  std::string Model() {
    return Below(10) == 0 ? "models/nobody" : StrCat("models/m", Below(3));
  }
  void Check(const grpc::Status& status) {
    EXPECT_TRUE(Expected(status.error_code()))
        << status.error_code() << " " << status.error_message();
  }

  template <class Stub, class Request, class Response, class Fill>
  void Unary(Stub& stub,
             grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                          Response*),
             Fill&& fill) {
    BoundedContext context;
    Request request;
    Response response;
    fill(request);
    Check((stub.*method)(&context, request, &response));
  }
  template <class Stub, class Request, class Response>
  void Unary(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                      const Request&, Response*)) {
    Unary(stub, method, [](Request&) {});
  }

  void Create() {
    Unary(*rig_.sessions, &v1::Sessions::Stub::CreateSession,
          [&](v1::CreateSessionRequest& r) {
            r.set_session_id(StrCat("s", Below(kNames)));
            r.mutable_session()->set_model(Model());
            if (Below(3) == 0) r.mutable_session()->mutable_ttl()->set_seconds(1);
          });
  }

  void Delete() {
    Unary(*rig_.sessions, &v1::Sessions::Stub::DeleteSession,
          [&](v1::DeleteSessionRequest& r) {
            r.set_name(Session());
            r.set_allow_missing(Below(2) == 0);
          });
  }

  void Text() {
    Unary(*rig_.generation, &v1::Generation::Stub::Tokenize,
          [&](v1::TokenizeRequest& r) {
            r.set_model(Model());
            r.set_text(Below(3) == 0 ? "?" : "some text");
          });
    Unary(*rig_.generation, &v1::Generation::Stub::Detokenize,
          [&](v1::DetokenizeRequest& r) {
            r.set_model(Model());
            for (int i = 0; i < 9; ++i) r.add_tokens(static_cast<int32_t>(Below(42)));
          });
  }

  void Models() {
    Unary(*rig_.models_stub, &v1::Models::Stub::ListModels);
    Unary(*rig_.models_stub, &v1::Models::Stub::GetModel,
          [&](v1::GetModelRequest& r) { r.set_name(Model()); });
    Unary(*rig_.admin, &v1::Admin::Stub::GetLoad);
    Unary(*health_, &grpc::health::v1::Health::Stub::Check);
  }

  void Later() {
    Unary(*rig_.generation, &v1::Generation::Stub::Predict);
    Converse();
  }

  // Messages in any order.
  void Converse() {
    BoundedContext context;
    const auto stream = rig_.generation->Converse(&context);
    const auto count = Below(6);
    for (uint32_t i = 0; i <= count; ++i) {
      v1::ConverseRequest request;
      switch (i == 0 && Below(5) > 0 ? 1 : Below(5)) {
        case 0:
          request.mutable_interrupt();
          break;
        case 1:
          request.mutable_open()->set_session(Session());
          request.mutable_open()->set_credit_token_count(Below(30));
          break;
        case 2:
          request.mutable_credits()->set_token_count(Below(20));
          break;
        case 3:
          request.mutable_turn()->mutable_prompt()->set_text("abc");
          request.mutable_turn()->mutable_stopping()->set_max_tokens(Below(40));
      }
      if (!stream->Write(request)) break;
    }
    if (Below(5) == 0) context.TryCancel();
    stream->WritesDone();
    for (v1::ConverseResponse response; stream->Read(&response);) {
    }
    Check(stream->Finish());
  }

  void OnSession() {
    using S = v1::Sessions::Stub;
    switch (Below(7)) {
      case 0:
        return Unary(*rig_.sessions, &S::UpdateSession,
                     [&](v1::UpdateSessionRequest& r) {
                       r.mutable_session()->set_name(Session());
                       if (Below(3) == 0)
                         r.mutable_session()->mutable_ttl()->set_seconds(1);
                       if (Below(3) == 0)
                         r.mutable_session()->mutable_sampling()->set_top_p(0.5);
                       if (Below(9) == 0) r.mutable_session()->set_paused(true);
                       if (Below(2) == 0) r.mutable_update_mask()->add_paths("paused");
                     });
      case 1:
        return Unary(*rig_.sessions, &S::ForkSession, [&](v1::ForkSessionRequest& r) {
          r.set_name(Session());
          r.set_session_id(StrCat("s", Below(kNames)));
          if (Below(2) == 0) r.set_token_count(Below(60));
        });
      case 2:
        return Unary(*rig_.sessions, &S::RewindSession,
                     [&](v1::RewindSessionRequest& r) {
                       r.set_name(Session());
                       if (Below(2) == 0) {
                         r.set_token_count(Below(60));
                       } else {
                         r.set_checkpoint_id(StrCat("c", Below(3)));
                       }
                     });
      case 3:
        return Unary(*rig_.sessions, &S::CheckpointSession,
                     [&](v1::CheckpointSessionRequest& r) {
                       r.set_name(Session());
                       r.set_checkpoint_id(StrCat("c", Below(3)));
                     });
      case 4:
        return Unary(*rig_.sessions, &S::VerifySession,
                     [&](v1::VerifySessionRequest& r) {
                       r.set_name(Session());
                       r.set_replay(Below(2) == 0);
                     });
      case 5: {
        BoundedContext context;
        v1::ExportSessionRequest request;
        request.set_name(Session());
        const auto reader = rig_.sessions->ExportSession(&context, request);
        v1::ExportSessionResponse part;
        snapshot_.clear();
        while (reader->Read(&part)) snapshot_ += part.chunk();
        return Check(reader->Finish());
      }
      default: {
        BoundedContext context;
        v1::Session session;
        const auto writer = rig_.sessions->ImportSession(&context, &session);
        v1::ImportSessionRequest message;
        message.mutable_open()->set_session_id(StrCat("s", Below(kNames)));
        message.mutable_open()->mutable_session()->set_model(Model());
        message.mutable_open()->set_size_bytes(static_cast<int64_t>(snapshot_.size()));
        writer->Write(message);
        message.set_chunk(snapshot_);
        writer->Write(message);
        if (Below(5) == 0) context.TryCancel();
        writer->WritesDone();
        return Check(writer->Finish());
      }
    }
  }

  // Half of them on a session; some wrong, some too late, some given up.
  void Generate() {
    v1::GenerateRequest request;
    if (Below(2) == 0) request.set_session(Session());
    if (request.session().empty() || Below(4) == 0) request.set_model(Model());
    for (uint32_t i = Below(20); i > 0; --i) {
      request.mutable_prompt()->mutable_tokens()->add_ids(
          static_cast<int32_t>(Below(30) == 0 ? ToyDecoder::kVocab : Below(32)));
    }
    v1::Sampling& sampling = *request.mutable_sampling();
    if (Below(2) == 0) sampling.set_temperature(Below(3) * 0.7);
    if (Below(3) == 0) sampling.set_min_p(0.1);
    if (Below(3) == 0) sampling.set_typical_p(Below(9) == 0 ? 7 : 0.8);
    if (Below(3) == 0) sampling.set_repetition_penalty(1.2);
    if (Below(3) == 0) sampling.add_logit_bias()->set_bias(-INFINITY);
    v1::Stopping& stopping = *request.mutable_stopping();
    stopping.set_max_tokens(static_cast<int32_t>(Below(120)));
    if (Below(3) == 0) stopping.add_stop_strings("a");
    if (Below(5) == 0) stopping.mutable_time_limit()->set_nanos(1'000'000);
    if (Below(3) == 0) request.mutable_output()->set_top_candidate_count(3);
    if (Below(4) == 0) {
      request.set_request_id(StrCat("00000000-0000-0000-0000-00000000000", Below(10)));
    }
    BoundedContext context{Below(8) == 0 ? std::chrono::milliseconds(Below(4))
                                         : std::chrono::milliseconds(kPatience)};
    auto reader = rig_.generation->Generate(&context, request);
    v1::GenerateResponse response;
    uint32_t reads = Below(4) == 0 ? Below(3) : 1000;
    while (reads > 0 && reader->Read(&response)) --reads;
    if (reads == 0) context.TryCancel();
    Check(reader->Finish());
  }

  void Score() {
    BoundedContext context;
    auto stream = rig_.generation->Score(&context);
    v1::ScoreRequest request;
    if (Below(10) != 0) {
      v1::ScoreRequest::Open& open = *request.mutable_open();
      if (Below(2) == 0) {
        open.set_session(Session());
        open.set_commit(Below(2) == 0);
      } else {
        open.set_model(Model());
      }
      stream->Write(request);
    }
    for (uint32_t part = Below(3); part > 0; --part) {
      auto& ids = *request.mutable_part()->mutable_tokens()->mutable_ids();
      ids.Clear();
      for (uint32_t i = Below(90); i > 0; --i) ids.Add(static_cast<int32_t>(Below(32)));
      stream->Write(request);
    }
    if (Below(5) == 0) context.TryCancel();
    stream->WritesDone();
    v1::ScoreResponse response;
    while (stream->Read(&response)) {
    }
    Check(stream->Finish());
  }

  std::string snapshot_ = "none";  // exported last
  Rig& rig_;
  std::mt19937 random_;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

void CallAtRandom(Rig& rig, int calls, uint32_t seed) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&rig, calls, seed = seed + t] {
      Caller caller(rig, seed);
      for (int i = 0; i < calls / kThreads; ++i) caller.Call();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RandomCalls, LeaveNothingBehind) {
  Rig rig({.state = ToyState::kFixedAndAppend,
           .models = {"m0", "m1", "m2"},
           .other_states = {ToyState::kFixedAndRing, ToyState::kFixed},
           .engine = {.sessions = 4, .max_queue = 4}});
  CallAtRandom(rig, 400, 1);
  const int64_t before = ResidentBytes();
  CallAtRandom(rig, 1000, 100);
  const int64_t grown = ResidentBytes() - before;
  // Sanitizers keep notes of freed memory.
  const int64_t most = std::getenv("MNEMON_SANITIZED") == nullptr ? 32 : 256;
  EXPECT_LT(grown, most << 20) << grown / 1000 << " bytes per call";
  for (int i = 0; i < kNames; ++i) {
    const absl::Status gone = rig.client->DeleteSession(StrCat("s", i));
    EXPECT_TRUE(gone.ok() || absl::IsNotFound(gone)) << gone;
  }
  EXPECT_TRUE(Eventually([&] {
    const EngineStats stats = rig.engine->Stats();
    return stats.running + stats.queued + stats.sessions + stats.state_bytes == 0;
  }));
  const Collected alive = Collect(*rig.client, {.model = "m0",
                                                .tokens = {1},
                                                .stopping = {.max_tokens = 9},
                                                .sampling = {.temperature = 0}});
  EXPECT_EQ(alive.tokens,
            ToyContinuation(ToyState::kFixedAndAppend, {1}, 9, {.temperature = 0}));
}

}  // namespace
}  // namespace mnemon
