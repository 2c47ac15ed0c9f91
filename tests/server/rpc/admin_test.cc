// SPDX-License-Identifier: MIT
// The service Admin: load, and the drain that does not end the process.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <future>

#include "base/error.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "tests/fakes/patience.h"
#include "tests/server/rpc/observed_calls.h"
#include "tests/server/rpc/rig.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr char kReady[] = "mnemon.v1.Generation";

v1::Load LoadOf(const Rig& rig) {
  BoundedContext context;
  v1::Load load;
  const grpc::Status status = rig.admin->GetLoad(&context, {}, &load);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return load;
}

grpc::Status Drained(const Rig& rig, std::optional<milliseconds> grace) {
  BoundedContext context;
  v1::DrainRequest request;
  if (grace) {
    request.mutable_grace()->set_seconds(grace->count() / 1000);
    request.mutable_grace()->set_nanos(
        static_cast<int32_t>(grace->count() % 1000 * 1'000'000));
  }
  v1::DrainResponse response;
  response.set_session_count(-1);
  const grpc::Status status = rig.admin->Drain(&context, request, &response);
  if (status.ok()) {
    EXPECT_EQ(response.session_count(), 0);
  }
  return status;
}

std::future<grpc::Status> StartDrain(const Rig& rig,
                                     std::optional<milliseconds> grace) {
  auto drain =
      std::async(std::launch::async, [&rig, grace] { return Drained(rig, grace); });
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().draining; }));
  return drain;
}

std::future<Collected> Start(const Rig& rig, const client::GenerateOptions& options) {
  return std::async(std::launch::async,
                    [&rig, options] { return Collect(*rig.NewClient(), options); });
}

TEST(Load, CountsCallsThatRunAndWaitOverAllModels) {
  Rig rig(
      {.models = {"a", "b"}, .engine = {.sessions = 4, .running = 1, .max_queue = 5}});
  const client::GenerateOptions options{
      .model = "a", .tokens = {1}, .stopping = {.max_tokens = 40}};
  // So that something is measured.
  ASSERT_TRUE(Collect(*rig.client, options).result.ok());
  ASSERT_TRUE(rig.client->CreateSession("anna", "b").ok());
  v1::Load load = LoadOf(rig);
  EXPECT_EQ(load.running_call_count(), 0);
  EXPECT_EQ(load.queued_call_count(), 0);
  EXPECT_EQ(load.queue_capacity(), 10);
  EXPECT_EQ(load.session_count(), 1);
  EXPECT_EQ(load.session_capacity(), 8);
  EXPECT_TRUE(load.has_queue_duration());
  EXPECT_EQ(load.queue_duration().seconds(), 0);
  EXPECT_EQ(load.queue_duration().nanos(), 0);
  EXPECT_EQ(load.generated_token_count(), 40);
  EXPECT_EQ(load.computed_token_count(), 40);
  EXPECT_FALSE(load.draining());

  rig.decoder.Allow(0);
  std::vector<std::future<Collected>> calls;
  calls.push_back(Start(rig, options));
  rig.decoder.AwaitHeld();
  for (int i = 0; i < 2; ++i) calls.push_back(Start(rig, options));
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().queued == 2; }));
  load = LoadOf(rig);
  EXPECT_EQ(load.running_call_count(), 1);
  EXPECT_EQ(load.queued_call_count(), 2);
  const EngineStats stats = rig.engine->Stats();
  EXPECT_EQ(load.state_size_bytes(), stats.state_bytes);
  EXPECT_EQ(load.state_capacity_bytes(), stats.models[0].state_capacity_bytes +
                                             stats.models[1].state_capacity_bytes);
  EXPECT_GT(load.state_capacity_bytes(), load.state_size_bytes());
  // The longest, not the sum: nothing waits for the other model.
  EXPECT_GT(stats.models[0].wait.count(), 0);
  EXPECT_EQ(stats.models[1].wait.count(), 0);
  EXPECT_NEAR(static_cast<double>(load.queue_duration().seconds()) +
                  1e-9 * load.queue_duration().nanos(),
              stats.models[0].wait.count(), 1e-8);
  rig.decoder.AllowAll();
  for (auto& call : calls) EXPECT_TRUE(call.get().result.ok());
}

TEST(AdminDrain, LetsAStreamFinishAndRefusesNewWork) {
  Rig rig({.rpc = {.grace = 2 * kPatience}});
  ASSERT_TRUE(rig.client->CreateSession("anna", "").ok());
  ASSERT_TRUE(
      Collect(*rig.client,
              {.session = "anna", .tokens = {1, 2, 3}, .stopping = {.max_tokens = 2}})
          .result.ok());
  rig.decoder.Allow(3);
  auto running = Start(rig, {.tokens = {1}, .stopping = {.max_tokens = 100}});
  rig.decoder.AwaitHeld();
  auto drain = StartDrain(rig, std::nullopt);
  // Without another update.
  EXPECT_TRUE(
      Eventually([&] { return absl::IsUnavailable(rig.client->CheckHealth(kReady)); }));
  EXPECT_TRUE(rig.client->CheckHealth("").ok());
  EXPECT_TRUE(LoadOf(rig).draining());
  EXPECT_EQ(LoadOf(rig).running_call_count(), 1);
  EXPECT_EQ(ReasonOf(Collect(*rig.client, {.tokens = {1}}).result.status()),
            "DRAINING");
  EXPECT_EQ(drain.wait_for(milliseconds(50)), std::future_status::timeout);
  rig.decoder.AllowAll();
  const Collected got = running.get();
  EXPECT_TRUE(got.result.ok()) << got.result.status();
  EXPECT_EQ(got.tokens.size(), 100u);
  EXPECT_TRUE(drain.get().ok());

  // The process goes on, drained.
  EXPECT_TRUE(rig.client->ListModels().ok());
  const auto before = rig.client->GetSession("anna");
  ASSERT_TRUE(before.ok()) << before.status();
  for (const absl::Status& status :
       {rig.client->DeleteSession("anna"),
        rig.client->RewindSession({.id = "anna", .position = 1}).status(),
        rig.client->CheckpointSession({.id = "anna", .checkpoint = "here"}).status()}) {
    EXPECT_EQ(ReasonOf(status), "DRAINING") << status;
  }
  const auto after = rig.client->GetSession("anna");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->etag, before->etag);
  for (const absl::Status& status :
       {Collect(*rig.client, {.tokens = {1}}).result.status(),
        rig.client->Score({.tokens = {1, 2}}, [](const auto&) { return true; })
            .status(),
        rig.client->CreateSession("s", "").status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(ReasonOf(status), "DRAINING");
  }
  EXPECT_TRUE(Drained(rig, std::nullopt).ok()) << "at once";
  const auto begin = std::chrono::steady_clock::now();
  rig.server->Shutdown(2 * kPatience);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
}

TEST(AdminDrain, EndsAStreamAfterTheGraceAndKeepsWhatWasDelivered) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("anna", "").ok());
  rig.decoder.Allow(3);
  auto running =
      Start(rig, {.session = "anna", .tokens = {1}, .stopping = {.max_tokens = 100}});
  rig.decoder.AwaitHeld();
  EXPECT_TRUE(Drained(rig, milliseconds(50)).ok());
  rig.decoder.AllowAll();
  const Collected got = running.get();
  EXPECT_TRUE(absl::IsUnavailable(got.result.status())) << got.result.status();
  EXPECT_EQ(ReasonOf(got.result.status()), "DRAINING");
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
  const auto anna = rig.client->GetSession("anna");
  ASSERT_TRUE(anna.ok()) << anna.status();
  EXPECT_EQ(anna->state, "IDLE");
  EXPECT_EQ(anna->position, 1 + static_cast<int64_t>(got.tokens.size()));
}

TEST(AdminDrain, EndsInTimeThoughAReaderNeverReads) {
  Rig rig({.append_capacity = 8192});
  v1::GenerateRequest request;
  request.mutable_prompt()->mutable_tokens()->add_ids(3);
  request.mutable_stopping()->set_max_tokens(8000);
  request.mutable_output()->set_top_candidate_count(20);
  BoundedContext context;
  const auto reader = rig.generation->Generate(&context, request);
  ASSERT_TRUE(Eventually([&] { return rig.engine->Stats().models[0].stalled == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  // On a channel of its own, since waiting messages fill the other's window.
  const auto admin = v1::Admin::NewStub(rig.NewChannel());
  BoundedContext drain_context;
  v1::DrainRequest drain;
  drain.mutable_grace()->set_nanos(50'000'000);
  v1::DrainResponse response;
  EXPECT_TRUE(admin->Drain(&drain_context, drain, &response).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
  for (v1::GenerateResponse message; reader->Read(&message);) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(AdminDrain, ASecondOneJoinsTheFirstAndShortensIt) {
  Rig rig;
  rig.decoder.Allow(0);
  auto running = Start(rig, {.tokens = {1}, .stopping = {.max_tokens = 100}});
  rig.decoder.AwaitHeld();
  auto first = StartDrain(rig, 2 * kPatience);
  auto longer = StartDrain(rig, 3 * kPatience);
  EXPECT_EQ(first.wait_for(milliseconds(50)), std::future_status::timeout);
  auto shorter = StartDrain(rig, milliseconds(0));
  for (auto* drain : {&first, &longer, &shorter}) {
    ASSERT_EQ(drain->wait_for(kPatience), std::future_status::ready);
    EXPECT_TRUE(drain->get().ok());
  }
  rig.decoder.AllowAll();
  EXPECT_EQ(ReasonOf(running.get().result.status()), "DRAINING");
}

TEST(AdminDrain, AShutdownShortensItToo) {
  Rig rig;
  rig.decoder.Allow(0);
  auto running = Start(rig, {.tokens = {1}, .stopping = {.max_tokens = 100}});
  rig.decoder.AwaitHeld();
  auto drain = StartDrain(rig, 2 * kPatience);
  const auto begin = std::chrono::steady_clock::now();
  rig.server->Shutdown(milliseconds(0));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
  EXPECT_EQ(drain.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(drain.get().ok());
  rig.decoder.AllowAll();
  EXPECT_FALSE(running.get().result.ok());
}

TEST(AdminDrain, GoesOnWithoutItsCaller) {
  const auto observed = std::make_shared<ObservedCalls>();
  Rig rig({.service = {.observer = observed}});
  rig.decoder.Allow(0);
  auto running = Start(rig, {.tokens = {1}, .stopping = {.max_tokens = 100}});
  rig.decoder.AwaitHeld();
  v1::DrainRequest request;
  request.mutable_grace()->set_seconds(2 * kPatience.count());
  v1::DrainResponse response;
  BoundedContext late(milliseconds(100));
  EXPECT_EQ(rig.admin->Drain(&late, request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  {
    BoundedContext context;
    auto given_up = std::async(std::launch::async, [&] {
      v1::DrainResponse none;
      return rig.admin->Drain(&context, request, &none);
    });
    EXPECT_EQ(given_up.wait_for(milliseconds(50)), std::future_status::timeout);
    context.TryCancel();
    EXPECT_EQ(given_up.get().error_code(), grpc::StatusCode::CANCELLED);
  }
  // The server does not keep them until it is drained.
  EXPECT_TRUE(Eventually([&] {
    const std::vector<AccessRecord> ended = observed->Ended();
    return std::count_if(ended.begin(), ended.end(), [](const AccessRecord& call) {
             return call.method == "mnemon.v1.Admin/Drain";
           }) == 2;
  }));
  EXPECT_TRUE(LoadOf(rig).draining());
  EXPECT_EQ(ReasonOf(Collect(*rig.client, {.tokens = {1}}).result.status()),
            "DRAINING");
  rig.decoder.AllowAll();
  EXPECT_EQ(running.get().tokens.size(), 100u);
  EXPECT_TRUE(Drained(rig, std::nullopt).ok());
}

TEST(AdminDrain, ChecksTheGrace) {
  Rig rig;
  const auto refused = [&](int64_t s, int32_t nanos) {
    BoundedContext context;
    v1::DrainRequest request;
    request.mutable_grace()->set_seconds(s);
    request.mutable_grace()->set_nanos(nanos);
    v1::DrainResponse response;
    const absl::Status status =
        client::FromGrpcStatus(rig.admin->Drain(&context, request, &response));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << s << " " << nanos << status;
    EXPECT_EQ(GetErrorDetail(status).value_or(ErrorDetail{}).field, "grace");
  };
  refused(-1, 0);
  refused(0, -1);
  refused(86401, 0);
  refused(0, 2'000'000'000);
  refused(INT64_MAX, 0);
  refused(INT64_MIN, 0);
  EXPECT_FALSE(LoadOf(rig).draining());
  EXPECT_TRUE(rig.client->CheckHealth(kReady).ok());
  EXPECT_TRUE(Drained(rig, seconds(86400)).ok());
}

TEST(Admin, CanBeOff) {
  Rig rig({.rpc = {.admin = AdminPeers::kNone}});
  BoundedContext context;
  v1::Load load;
  const absl::Status status =
      client::FromGrpcStatus(rig.admin->GetLoad(&context, {}, &load));
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_EQ(ReasonOf(status), "METHOD_UNIMPLEMENTED");
  EXPECT_EQ(ReasonOf(client::FromGrpcStatus(Drained(rig, std::nullopt))),
            "METHOD_UNIMPLEMENTED");
  EXPECT_FALSE(rig.engine->Stats().draining);
}

// An IPv4 address of this machine beside loopback; empty: it has none.
std::string OwnAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* one = all; one != nullptr && found.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    if (ntohl(address->sin_addr.s_addr) >> 24 == 127) continue;
    char text[INET_ADDRSTRLEN] = {};
    found = inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text));
  }
  freeifaddrs(all);
  return found;
}

TEST(Admin, RefusesOtherPeersThanLoopback) {
  const std::string host = OwnAddress();
  if (host.empty()) GTEST_SKIP() << "this machine has no address beside loopback";
  for (const AdminPeers peers : {AdminPeers::kLoopback, AdminPeers::kAll}) {
    Rig rig;
    const auto service = *Service::Create(*rig.engine, {});
    auto server =
        RpcServer::Start(*service, {.listen = StrCat(host, ":0"), .admin = peers});
    ASSERT_TRUE(server.ok()) << server.status();
    const auto admin = v1::Admin::NewStub(grpc::CreateChannel(
        StrCat(host, ":", (*server)->port()), grpc::InsecureChannelCredentials()));
    const auto expect = [&](const grpc::Status& got) {
      if (peers == AdminPeers::kAll) {
        EXPECT_TRUE(got.ok()) << got.error_message();
        return;
      }
      EXPECT_EQ(got.error_code(), grpc::StatusCode::PERMISSION_DENIED);
      EXPECT_EQ(ReasonOf(client::FromGrpcStatus(got)), "NOT_LOOPBACK");
    };
    BoundedContext load_context, drain_context;
    v1::Load load;
    expect(admin->GetLoad(&load_context, {}, &load));
    v1::DrainResponse response;
    expect(admin->Drain(&drain_context, {}, &response));
    EXPECT_EQ(rig.engine->Stats().draining, peers == AdminPeers::kAll);
  }
}

}  // namespace
}  // namespace mnemon
