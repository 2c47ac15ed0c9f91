// SPDX-License-Identifier: MIT
// The calls on sessions over gRPC, between the client library and the server.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "tests/fakes/fake_clock.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using client::GenerateOptions;

std::string FieldOf(const absl::Status& status) {
  return GetErrorDetail(status).value_or(ErrorDetail{}).field;
}

GenerateOptions Turn(const std::string& session, std::vector<int32_t> tokens,
                     int32_t count) {
  GenerateOptions options;
  options.session = session;
  options.tokens = std::move(tokens);
  options.stopping.max_tokens = count;
  options.sampling.temperature = 1;
  options.sampling.seed = 5;
  return options;
}

std::string ExportAll(client::Client& client, const std::string& id) {
  std::string snapshot;
  const auto exported = client.ExportSession(id, [&](std::string_view part) {
    snapshot += part;
    return absl::OkStatus();
  });
  EXPECT_TRUE(exported.ok()) << exported.status();
  if (exported.ok()) {
    EXPECT_EQ(exported->size_bytes, static_cast<int64_t>(snapshot.size()));
    EXPECT_EQ(exported->session.id, id);
  }
  return snapshot;
}

absl::StatusOr<client::Session> ImportAll(client::Client& client, const std::string& id,
                                          const std::string& snapshot) {
  size_t at = 0;
  return client.ImportSession(
      {.id = id, .size_bytes = static_cast<int64_t>(snapshot.size())},
      [&](char* to, size_t most) -> absl::StatusOr<size_t> {
        const size_t count = std::min(most, snapshot.size() - at);
        std::memcpy(to, snapshot.data() + at, count);
        at += count;
        return count;
      });
}

TEST(SessionCalls, AForkGoesItsOwnWayAndARewindGoesBack) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("a", "").ok());
  const Collected first = Collect(*rig.client, Turn("a", {20, 21, 22}, 10));
  ASSERT_TRUE(first.result.ok());
  const auto kept = rig.client->CheckpointSession({.id = "a", .checkpoint = "c"});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->id, "c");
  EXPECT_EQ(kept->position, 13);
  const auto fork = rig.client->ForkSession({.parent = "a", .id = "b"});
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->parent, "a");
  EXPECT_EQ(fork->position, 13);
  EXPECT_EQ(fork->tier, "HOST");
  const Collected a = Collect(*rig.client, Turn("a", {23}, 10));
  const Collected b = Collect(*rig.client, Turn("b", {23}, 10));
  EXPECT_EQ(a.tokens, b.tokens);
  const auto back = rig.client->RewindSession({.id = "a", .checkpoint = "c"});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->position, 13);
  ASSERT_EQ(back->checkpoints.size(), 1u);
  EXPECT_EQ(Collect(*rig.client, Turn("a", {23}, 10)).tokens, a.tokens);
  const auto cut = rig.client->RewindSession({.id = "a", .position = 5});
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->position, 5);
  for (const int64_t wrong : {int64_t{6}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    const absl::Status beyond =
        rig.client->RewindSession({.id = "a", .position = wrong}).status();
    EXPECT_EQ(beyond.code(), absl::StatusCode::kOutOfRange) << wrong;
    EXPECT_EQ(ReasonOf(beyond), "BEYOND_HISTORY") << wrong;
    EXPECT_EQ(FieldOf(beyond), "token_count") << wrong;
    const absl::Status fork =
        rig.client->ForkSession({.parent = "a", .id = "c", .position = wrong}).status();
    EXPECT_EQ(ReasonOf(fork), "BEYOND_HISTORY") << wrong;
  }
  EXPECT_EQ(rig.client->GetSession("a")->position, 5);
  const absl::Status old =
      rig.client->RewindSession({.id = "a", .position = 2, .etag = back->etag})
          .status();
  EXPECT_EQ(ReasonOf(old), "ETAG_MISMATCH");
  EXPECT_EQ(old.code(), absl::StatusCode::kAborted);
}

TEST(SessionCalls, ASnapshotGoesOnOnAnotherServer) {
  Rig here, there;
  ASSERT_TRUE(here.client->CreateSession("a", "").ok());
  ASSERT_TRUE(
      Collect(*here.client, Turn("a", std::vector<int32_t>(900, 20), 40)).result.ok());
  const std::string snapshot = ExportAll(*here.client, "a");
  const auto made = ImportAll(*there.client, "b", snapshot);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->position, 940);
  EXPECT_FALSE(made->rebuilt);
  EXPECT_EQ(ExportAll(*there.client, "b"), snapshot);
  EXPECT_EQ(Collect(*there.client, Turn("b", {21}, 20)).tokens,
            Collect(*here.client, Turn("a", {21}, 20)).tokens);
  for (const bool replay : {false, true}) {
    const auto verified = there.client->VerifySession("b", replay);
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_TRUE(verified->stored_form_valid);
    EXPECT_EQ(verified->replay_equal,
              replay ? std::optional<bool>(true) : std::nullopt);
    EXPECT_EQ(verified->position, 961);
    EXPECT_EQ(verified->first_difference, "");
  }
  EXPECT_EQ(ReasonOf(ImportAll(*there.client, "b", snapshot).status()),
            "SESSION_EXISTS");
  std::string bad = snapshot;
  bad[bad.size() / 2] ^= 1;
  const absl::Status damaged = ImportAll(*there.client, "c", bad).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(damaged), "SNAPSHOT_DAMAGED");
  EXPECT_FALSE(there.client->GetSession("c").ok());
}

// Messages that no client of ours sends.
TEST(SessionCalls, AnImportThatIsNotOneNamesWhatIsWrong) {
  Rig rig;
  using R = v1::ImportSessionRequest;
  const auto open = [](int64_t size) {
    R request;
    request.mutable_open()->set_size_bytes(size);
    return request;
  };
  const auto chunk = [](size_t size) {
    R request;
    request.set_chunk(std::string(size, 'x'));
    return request;
  };
  struct Case {
    std::vector<R> messages;
    std::string field;
  };
  const Case cases[] = {
      {{}, "open"},
      {{chunk(3)}, "open"},
      {{R()}, "open"},
      {{open(-1)}, "open.size_bytes"},
      {{open(5), open(5)}, "open"},
      {{open(5), R()}, "chunk"},
      {{open(5), chunk(6)}, "chunk"},
      {{open(5), chunk(4)}, "chunk"},
      {{open(5), chunk(3), chunk(3)}, "chunk"},
      {{open(1 << 21), chunk((1 << 20) + 1)}, "chunk"},
  };
  for (const Case& c : cases) {
    BoundedContext context;
    v1::Session session;
    const auto writer = rig.sessions->ImportSession(&context, &session);
    for (const R& message : c.messages) writer->Write(message);
    writer->WritesDone();
    const absl::Status status = client::FromGrpcStatus(writer->Finish());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(FieldOf(status), c.field) << status;
  }
  BoundedContext context;
  v1::Session session;
  const auto writer = rig.sessions->ImportSession(&context, &session);
  writer->Write(open(200));
  writer->Write(chunk(200));
  writer->WritesDone();
  EXPECT_EQ(ReasonOf(client::FromGrpcStatus(writer->Finish())), "SNAPSHOT_DAMAGED");
  EXPECT_EQ(rig.engine->Stats().sessions, 0);
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().memory.queue == 0; }));
}

TEST(SessionCalls, AnImportTakesNoMoreMemoryThanThereIs) {
  RigOptions options;
  options.engine.memory_bytes = int64_t{8} << 20;
  Rig rig(options);
  BoundedContext context;
  v1::Session session;
  const auto writer = rig.sessions->ImportSession(&context, &session);
  v1::ImportSessionRequest message;
  message.mutable_open()->set_size_bytes(int64_t{1} << 40);
  bool taken = writer->Write(message);
  message.set_chunk(std::string(1 << 20, 'x'));
  for (int i = 0; i < 200 && taken; ++i) taken = writer->Write(message);
  writer->WritesDone();
  const absl::Status status = client::FromGrpcStatus(writer->Finish());
  EXPECT_EQ(ReasonOf(status), "MEMORY_LIMIT") << status;
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().memory.queue == 0; }));
}

TEST(SessionCalls, TransfersEndWithTheirCallers) {
  RigOptions options;
  options.engine.idle_timeout = std::chrono::milliseconds(300);
  Rig rig(options);
  ASSERT_TRUE(rig.client->CreateSession("a", "").ok());
  ASSERT_TRUE(
      Collect(*rig.client, Turn("a", std::vector<int32_t>(900, 20), 4)).result.ok());
  {
    BoundedContext context;
    v1::Session session;
    const auto writer = rig.sessions->ImportSession(&context, &session);
    v1::ImportSessionRequest message;
    message.mutable_open()->set_size_bytes(100);
    writer->Write(message);
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  {
    // It sends nothing more, and does not end.
    BoundedContext context;
    v1::Session session;
    const auto writer = rig.sessions->ImportSession(&context, &session);
    v1::ImportSessionRequest message;
    message.mutable_open()->set_size_bytes(100);
    writer->Write(message);
    auto end = std::async(std::launch::async, [&] { return writer->Finish(); });
    while (end.wait_for(std::chrono::milliseconds(5)) == std::future_status::timeout) {
      rig.service->EndIdleCalls();
    }
    EXPECT_EQ(ReasonOf(client::FromGrpcStatus(end.get())), "CALLER_IDLE");
  }
  {
    BoundedContext context;
    v1::ExportSessionRequest request;
    request.set_name("sessions/a");
    const auto reader = rig.sessions->ExportSession(&context, request);
    v1::ExportSessionResponse part;
    ASSERT_TRUE(reader->Read(&part));
    context.TryCancel();
    while (reader->Read(&part)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Collect(*rig.client, Turn("a", {20}, 4)).result.ok());
}

TEST(SessionCalls, AnUpdateChangesWhatItNames) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("a", "").ok());
  ASSERT_TRUE(Collect(*rig.client, Turn("a", {20, 21}, 3)).result.ok());
  client::SamplingOptions sampling;
  sampling.temperature = 0;
  sampling.logit_bias = {{.token = 7, .bias = 1000}};
  const auto set = rig.client->UpdateSession(
      {.id = "a", .etag = "", .fields = {}, .sampling = sampling});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->sampling.temperature, 0);
  EXPECT_TRUE(set->expire_time.has_value());
  GenerateOptions bare;
  bare.session = "a";
  bare.tokens = {20};
  bare.stopping.max_tokens = 4;
  EXPECT_THAT(Collect(*rig.client, bare).tokens, testing::Each(7));
  bare.sampling.temperature = 1;
  bare.sampling.seed = 3;
  EXPECT_THAT(Collect(*rig.client, bare).tokens, testing::Not(testing::Each(7)));
  // A fork takes it over.
  ASSERT_TRUE(rig.client->ForkSession({.parent = "a", .id = "b"}).ok());
  GenerateOptions child;
  child.session = "b";
  child.stopping.max_tokens = 2;
  EXPECT_THAT(Collect(*rig.client, child).tokens, testing::Each(7));
  // Named, but not set: back to the default.
  const auto cleared =
      rig.client->UpdateSession({.id = "a", .etag = "", .fields = {"sampling", "ttl"}});
  ASSERT_TRUE(cleared.ok()) << cleared.status();
  EXPECT_FALSE(cleared->sampling.temperature.has_value());
  EXPECT_FALSE(cleared->expire_time.has_value());

  const auto paused =
      rig.client->UpdateSession({.id = "a", .etag = "", .fields = {}, .paused = true});
  ASSERT_TRUE(paused.ok());
  EXPECT_TRUE(paused->paused);
  EXPECT_EQ(paused->state, "PAUSED");
  const absl::Status refused = Collect(*rig.client, Turn("a", {20}, 3)).result.status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), "SESSION_PAUSED");
  ASSERT_TRUE(
      rig.client->UpdateSession({.id = "a", .etag = "", .fields = {"paused"}}).ok());
  EXPECT_TRUE(Collect(*rig.client, Turn("a", {20}, 3)).result.ok());

  EXPECT_EQ(
      ReasonOf(rig.client
                   ->UpdateSession(
                       {.id = "a", .etag = paused->etag, .fields = {}, .paused = true})
                   .status()),
      "ETAG_MISMATCH");
  sampling.temperature = -1;
  EXPECT_EQ(FieldOf(rig.client
                        ->UpdateSession(
                            {.id = "a", .etag = "", .fields = {}, .sampling = sampling})
                        .status()),
            "session.sampling.temperature");
  EXPECT_EQ(
      FieldOf(rig.client
                  ->UpdateSession({.id = "a",
                                   .etag = "",
                                   .fields = {},
                                   .expire_time = std::chrono::system_clock::now() -
                                                  std::chrono::hours(1)})
                  .status()),
      "session.expire_time");
}

TEST(SessionCalls, AMaskThatNamesOtherFieldsIsRefused) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("a", "").ok());
  BoundedContext context;
  v1::UpdateSessionRequest request;
  request.mutable_session()->set_name("sessions/a");
  request.mutable_update_mask()->add_paths("name");
  v1::Session session;
  EXPECT_EQ(FieldOf(client::FromGrpcStatus(
                rig.sessions->UpdateSession(&context, request, &session))),
            "update_mask");
}

// Used or not, at its time.
TEST(SessionCalls, AnExpireTimeEndsASessionThatIsInUse) {
  FakeClock clock;
  Rig rig({.engine = {.clock = &clock}});
  const auto made = rig.client->CreateSession(client::CreateSessionOptions{
      .id = "a",
      .model = "",
      .ttl = std::nullopt,
      .expire_time = clock.WallNow() + std::chrono::milliseconds(400)});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->expire_time.has_value());
  rig.decoder.Allow(4);
  std::thread later([&] {
    rig.decoder.AwaitHeld();
    clock.Advance(std::chrono::milliseconds(600));
    EXPECT_EQ(ReasonOf(rig.engine->GetSession("a").status()), "SESSION_EXPIRED");
    rig.decoder.AllowAll();
  });
  const absl::Status status =
      Collect(*rig.client, Turn("a", {20}, 500)).result.status();
  later.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_EQ(ReasonOf(rig.client->GetSession("a").status()), "SESSION_EXPIRED");
}

}  // namespace
}  // namespace mnemon
