// SPDX-License-Identifier: MIT
// Clients of streams over HTTP that do not read: each pauses its own session, soon, and
// ends once it has read nothing for too long.
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/http_peer.h"
#include "tests/server/gateway/gateway_rig.h"

namespace mnemon {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::ElementsAreArray;

constexpr int32_t kMany = 300'000;
constexpr int kReceiveBuffer = 4096;  // of a client: its kernel takes no more
// What is ahead of the reader, in bytes and, of each stream, in tokens.
constexpr int64_t kAheadBytes = 256 << 10;
constexpr int64_t kAheadTokens = 64;
// Least bytes per token, since several may share an event.
constexpr int64_t kTokenBytes = 20;

RigOptions Endless() {
  return {.state = ToyState::kFixed, .engine = {.sessions = 1000, .max_tokens = kMany}};
}

struct Door {
  const char* name;
  const char* path;
  json request;
  int streams = 1;
};

std::vector<Door> Doors() {
  const json limit = {{"max_tokens", kMany}};
  const json completion = {
      {"prompt", "abc"}, {"max_tokens", kMany}, {"seed", 1}, {"stream", true}};
  json choices = completion;
  choices["n"] = 3;
  json logprobs = completion;
  logprobs["logprobs"] = 20;
  return {
      {"Completions", "/v1/completions", completion},
      {"Choices", "/v1/completions", choices, 3},
      {"Logprobs", "/v1/completions", logprobs},
      {"Chat",
       "/v1/chat/completions",
       {{"messages", {{{"role", "user"}, {"content", "abc"}}}},
        {"max_tokens", kMany},
        {"stream", true}}},
      {"Responses",
       "/v1/responses",
       {{"input", "abc"}, {"max_output_tokens", kMany}, {"stream", true}}},
      {"Sessions",
       "/v1/sessions/s/generate",
       {{"prompt", "abc"}, {"stopping", limit}, {"stream", true}}},
  };
}

ModelStats Stats(const GatewayRig& rig) { return rig.rig.engine->Stats().models[0]; }

// Tokens that may be generated ahead of readers that stopped.
int64_t MostAhead(int64_t streams) {
  return streams * kAheadTokens + kAheadBytes / kTokenBytes;
}

// Waits until all streams are paused, and nothing moves any more, unless the machine is
// busy; false once more is generated than may be ahead of readers that stopped.
bool Stalls(const GatewayRig& rig, int64_t streams) {
  const int64_t most = MostAhead(streams);
  int64_t before = -1;
  int64_t now = 0;
  return Eventually([&] {
           std::this_thread::sleep_for(milliseconds(50));  // in which nothing moved
           now = rig.rig.engine->Stats().tokens_generated;
           return now > most || (now > 0 && now == std::exchange(before, now) &&
                                 Stats(rig).stalled == streams);
         }) &&
         now <= most;
}

// As Eventually, for what takes long on a busy machine.
bool Patiently(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 6; ++tries) {
    if (Eventually(condition)) return true;
  }
  return false;
}

class EachHttpDoor : public ::testing::TestWithParam<Door> {};

TEST_P(EachHttpDoor, AReaderThatStopsPausesAlone) {
  GatewayRig rig(Endless());
  ASSERT_EQ(rig.Post("/v1/sessions", {{"session_id", "s"}}).code, 200);
  const Door& door = GetParam();
  HttpPeer peer(rig.port(), kReceiveBuffer);
  ASSERT_TRUE(peer.Send(GatewayRig::Request("POST", door.path, door.request.dump())));
  ASSERT_TRUE(Stalls(rig, door.streams));
  const HttpAnswer other = rig.Send("POST", "/v1/completions",
                                    R"({"prompt":"abc","max_tokens":300,"seed":1})");
  EXPECT_EQ(other.code, 200) << other.body;
  EXPECT_TRUE(Patiently([&] { return Stats(rig).stalled == door.streams; }));
  EXPECT_LE(rig.rig.engine->Stats().tokens_generated, MostAhead(door.streams) + 300);
}

INSTANTIATE_TEST_SUITE_P(Doors, EachHttpDoor, testing::ValuesIn(Doors()),
                         [](const auto& test) { return test.param.name; });

TEST(SlowHttpReader, GoesOnAndGetsEachTokenOnce) {
  constexpr int kTokens = 20'000;
  GatewayRig rig(Endless());
  ASSERT_EQ(rig.Post("/v1/sessions", {{"session_id", "s"}}).code, 200);
  const json request = {{"prompt", {{"tokens", {{"ids", {3}}}}}},
                        {"sampling", {{"temperature", 0}}},
                        {"stopping", {{"max_tokens", kTokens}}},
                        {"stream", true}};
  HttpPeer peer(rig.port(), kReceiveBuffer);
  ASSERT_TRUE(peer.Send(
      GatewayRig::Request("POST", "/v1/sessions/s/generate", request.dump())));
  ASSERT_TRUE(Stalls(rig, 1));
  const HttpAnswer answer = GatewayRig::ParseAnswer(peer.ReadToTheEnd());
  std::vector<json> events = GatewayRig::ParseEvents(answer.body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back(), "[DONE]");
  std::vector<int32_t> tokens;
  for (json& event : events) {
    if (!event.is_object() || !event.contains("tokens")) continue;
    EXPECT_EQ(event["first_index"], 1 + static_cast<int64_t>(tokens.size()));
    for (const json& token : event["tokens"]) tokens.push_back(token.get<int32_t>());
  }
  EXPECT_THAT(tokens,
              ElementsAreArray(ToyContinuation(ToyState::kFixed, {3}, kTokens,
                                               SamplingParams{.temperature = 0})));
  EXPECT_TRUE(Eventually([&] { return Stats(rig).stalled == 0; }));
}

// More than run at once, and than there were places for once.
TEST(SlowHttpReader, ThreeHundredLeaveOthersAlone) {
  constexpr int kReaders = 300;
  GatewayRig rig(Endless());
  // Events are large, so that few tokens fill what is ahead.
  const json request = {{"prompt", "abc"},
                        {"max_tokens", kMany},
                        {"seed", 1},
                        {"logprobs", 20},
                        {"stream", true}};
  std::deque<HttpPeer> peers;
  for (int i = 0; i < kReaders; ++i) {
    ASSERT_TRUE(
        peers.emplace_back(rig.port(), kReceiveBuffer)
            .Send(GatewayRig::Request("POST", "/v1/completions", request.dump())));
    // As many as may wait for a permit.
    if (i % 100 == 99) {
      ASSERT_TRUE(Patiently([&] { return Stats(rig).stalled > i - 40; }));
    }
  }
  ASSERT_TRUE(Patiently([&] { return Stats(rig).stalled == kReaders; }));
  for (int i = 0; i < 4; ++i) {
    const HttpAnswer other =
        rig.Send("POST", "/v1/completions",
                 R"({"prompt":"abc","max_tokens":200,"seed":1,"stream":true})");
    EXPECT_EQ(other.code, 200);
    EXPECT_EQ(GatewayRig::ParseEvents(other.body).back(), "[DONE]");
  }
  EXPECT_TRUE(Patiently([&] { return Stats(rig).stalled == kReaders; }));
}

TEST(SlowHttpReader, OneThatReadsNothingEndsAndMayComeBack) {
  RigOptions options = Endless();
  options.engine.idle_timeout = milliseconds(300);
  HttpOptions http;
  http.write_timeout = milliseconds(400);
  GatewayRig rig(options, {}, http);
  ASSERT_EQ(rig.Post("/v1/sessions", {{"session_id", "s"}}).code, 200);
  json request = {{"prompt", "abc"},
                  {"request_id", "00000000-0000-4000-8000-000000000001"},
                  {"sampling", {{"temperature", 0}}},
                  {"stopping", {{"max_tokens", kMany}}},
                  {"stream", true}};
  HttpPeer peer(rig.port(), kReceiveBuffer);
  ASSERT_TRUE(peer.Send(
      GatewayRig::Request("POST", "/v1/sessions/s/generate", request.dump())));
  ASSERT_TRUE(Eventually([&] { return rig.rig.engine->Stats().running == 1; }));
  ASSERT_TRUE(Eventually([&] { return rig.rig.engine->Stats().running == 0; }));
  EXPECT_EQ(Stats(rig).stalled, 0);
  // It is closed, not only paused.
  const std::string got = peer.ReadToTheEnd();
  EXPECT_EQ(got.find("[DONE]"), std::string::npos);
  EXPECT_EQ(rig.Json("GET", "/v1/sessions/s").body["state"], "DETACHED");

  request["resume_after_index"] = -1;
  HttpPeer again(rig.port(), kReceiveBuffer);
  ASSERT_TRUE(again.Send(
      GatewayRig::Request("POST", "/v1/sessions/s/generate", request.dump())));
  EXPECT_TRUE(again.ReadUntil("\"first_index\":3"));
  EXPECT_TRUE(again.ReadUntil("\"tokens\":["));
}

}  // namespace
}  // namespace mnemon
