// SPDX-License-Identifier: MIT
// Calls on sessions over HTTP.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/http_peer.h"
#include "tests/server/gateway/gateway_rig.h"
#include "tests/server/rpc/observed_calls.h"

namespace mnemon {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json Turn(const std::string& prompt) {
  return {{"prompt", prompt},
          {"sampling", {{"seed", 3}}},
          {"stopping", {{"max_tokens", 5}}}};
}

// As calls of gRPC are: docs/http_api.md.
TEST(HttpSessions, HaveAccessRecordsOfTheirMethods) {
  const auto observed = std::make_shared<ObservedCalls>();
  {
    GatewayRig rig({.service = {.observer = observed}});
    ASSERT_EQ(rig.Post("/v1/sessions", {{"session_id", "anna"}}).code, 200);
    ASSERT_EQ(rig.Send("POST", "/v1/sessions/anna/generate", Turn("hello").dump(),
                       "X-Request-Id: mine-1\r\n")
                  .code,
              200);
    ASSERT_EQ(rig.Json("GET", "/v1/sessions/bert").code, 404);
  }
  std::map<std::string, AccessRecord> ended;
  for (const AccessRecord& record : observed->Ended()) ended[record.method] = record;
  const AccessRecord& made = ended["mnemon.v1.Sessions/CreateSession"];
  EXPECT_EQ(made.status, absl::StatusCode::kOk);
  EXPECT_EQ(made.session, "anna");
  EXPECT_GT(made.received_bytes, 0);
  EXPECT_GT(made.sent_bytes, 0);
  const AccessRecord& turn = ended["mnemon.v1.Generation/Generate"];
  EXPECT_EQ(turn.request_id, "mine-1");
  EXPECT_EQ(turn.model, "toy");
  EXPECT_EQ(turn.prompt_tokens, 5);
  EXPECT_EQ(turn.generated_tokens, 5);
  EXPECT_TRUE(turn.queue_time && turn.first_token);
  const AccessRecord& missing = ended["mnemon.v1.Sessions/GetSession"];
  EXPECT_EQ(missing.status, absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.reason, "SESSION_NOT_FOUND");
  EXPECT_EQ(missing.request_id.size(), 16u);
  std::map<std::string, int> started = observed->Started();
  EXPECT_EQ(started["mnemon.v1.Generation/Generate"], 1);
}

TEST(HttpSessions, LiveAsThoseOfGrpc) {
  GatewayRig rig;
  json made =
      rig.Post("/v1/sessions", {{"session_id", "anna"}, {"session", {{"ttl", "60s"}}}})
          .body;
  EXPECT_EQ(made["name"], "sessions/anna") << made;
  EXPECT_EQ(made["state"], "IDLE");
  EXPECT_EQ(made["token_count"], 0);

  JsonAnswer turn = rig.Post("/v1/sessions/anna/generate", Turn("hello"));
  ASSERT_EQ(turn.code, 200) << turn.body;
  EXPECT_EQ(turn.body["tokens"].size(), 5u);
  EXPECT_EQ(turn.body["first_index"], 5);
  EXPECT_EQ(turn.body["prompt"]["seed"], 3);
  EXPECT_EQ(turn.body["finish"]["finish_reason"], "MAX_TOKENS");
  EXPECT_EQ(turn.body["finish"]["token_count"], 10);

  json history = rig.Json("GET", "/v1/sessions/anna/history").body;
  EXPECT_EQ(history["text"], "hello" + turn.body["text"].get<std::string>());
  EXPECT_EQ(history["tokens"].size(), 10u);
  EXPECT_EQ(history["byte_offsets"][9], 9);
  json part =
      rig.Json("GET", "/v1/sessions/anna/history?first_index=1&token_count=3").body;
  EXPECT_EQ(part["text"], "ell");
  EXPECT_EQ(part["token_count"], 10);
  JsonAnswer beyond = rig.Json("GET", "/v1/sessions/anna/history?first_index=11");
  EXPECT_EQ(beyond.code, 400);
  EXPECT_EQ(beyond.body["error"]["code"], "BEYOND_HISTORY");
  EXPECT_EQ(beyond.body["error"]["param"], "first_index");

  json fork =
      rig.Post("/v1/sessions/anna/fork", {{"session_id", "bert"}, {"token_count", 5}})
          .body;
  EXPECT_EQ(fork["parent"], "sessions/anna") << fork;
  // The same turn, from the same state.
  json again = rig.Post("/v1/sessions/bert/rewind", {{"token_count", 0}}).body;
  EXPECT_EQ(again["token_count"], 0);
  EXPECT_EQ(rig.Post("/v1/sessions/bert/generate", Turn("hello")).body["text"],
            turn.body["text"]);

  json list = rig.Json("GET", "/v1/sessions?order_by=name%20desc").body;
  ASSERT_EQ(list["sessions"].size(), 2u);
  EXPECT_EQ(list["sessions"][0]["name"], "sessions/bert");
  EXPECT_EQ(rig.Json("GET", "/v1/sessions?page_size=1").body["next_page_token"].empty(),
            false);
  EXPECT_EQ(rig.Json("PATCH", "/v1/sessions/bert", {{"session", {{"paused", true}}}})
                .body["paused"],
            true);
  EXPECT_EQ(rig.Json("DELETE", "/v1/sessions/anna").code, 200);
  EXPECT_EQ(rig.Json("GET", "/v1/sessions/anna").code, 404);
  EXPECT_EQ(rig.Json("DELETE", "/v1/sessions/anna?allow_missing=true").code, 200);
}

TEST(HttpSessions, AStreamHasOneEventPerMessage) {
  GatewayRig rig;
  rig.Post("/v1/sessions", {{"session_id", "anna"}});
  json turn = Turn("hello");
  turn["stream"] = true;
  turn["output"] = {{"logprobs", true}};
  std::vector<json> events = rig.Events("/v1/sessions/anna/generate", turn);
  ASSERT_GE(events.size(), 2u);
  EXPECT_TRUE(events[0].contains("prompt"));
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(events[events.size() - 2]["finish"]["token_count"], 10);
  size_t tokens = 0;
  for (json& event : events) {
    if (event.is_object() && event.contains("tokens")) tokens += event["tokens"].size();
  }
  EXPECT_EQ(tokens, 5u);
}

TEST(HttpSessions, ErrorsAreThoseOfGrpc) {
  GatewayRig rig;
  const auto expect = [&](JsonAnswer answer, int code, const char* reason,
                          const json& field) {
    EXPECT_EQ(answer.code, code) << answer.body;
    EXPECT_EQ(answer.body["error"]["code"], reason) << answer.body;
    EXPECT_EQ(answer.body["error"]["param"], field) << answer.body;
  };
  expect(rig.Post("/v1/sessions/none/generate", Turn("a")), 404, "SESSION_NOT_FOUND",
         nullptr);
  expect(rig.Post("/v1/sessions", {{"session_id", "NO"}}), 400, "INVALID_VALUE",
         "session_id");
  expect(rig.Post("/v1/sessions", {{"sesion_id", "a"}}), 400, "INVALID_VALUE",
         "sesion_id");
  rig.Post("/v1/sessions", {{"session_id", "anna"}});
  expect(rig.Post("/v1/sessions", {{"session_id", "anna"}}), 409, "SESSION_EXISTS",
         nullptr);
  expect(rig.Post("/v1/sessions/anna/rewind", {{"token_count", 4}}), 400,
         "BEYOND_HISTORY", "token_count");
  expect(rig.Post("/v1/sessions/anna/generate", {{"sampling", {{"top_p", "x"}}}}), 400,
         "INVALID_VALUE", "sampling.top_p");
  expect(rig.Post("/v1/sessions/anna/generate", {{"stream", 1}}), 400, "INVALID_VALUE",
         "stream");
  expect(rig.Json("GET", "/v1/sessions?page_size=x"), 400, "INVALID_VALUE",
         "page_size");
  expect(rig.Json("GET", "/v1/sessions/a/b"), 404, "PATH_NOT_FOUND", nullptr);
  expect(rig.Json("PUT", "/v1/sessions"), 405, "METHOD_NOT_ALLOWED", nullptr);
}

TEST(HttpSessions, TokenizeAndModels) {
  GatewayRig rig;
  EXPECT_EQ(rig.Post("/v1/tokenize", {{"text", "ab"}}).body["tokens"], json({13, 14}));
  EXPECT_EQ(rig.Post("/v1/detokenize", {{"tokens", {13, 14}}}).body["text"], "ab");
  json models = rig.Json("GET", "/v1/models").body;
  EXPECT_EQ(models["data"][0]["id"], "toy");
  EXPECT_EQ(models["data"][0]["mnemon"]["parameter_count"], 12345);
  EXPECT_EQ(models["data"][0]["mnemon"]["kernel_target"], "avx2");
  EXPECT_EQ(rig.Json("GET", "/v1/models/toy").body["object"], "model");
  EXPECT_EQ(rig.Json("GET", "/v1/models/none").code, 404);
}

TEST(HttpSessions, AClientThatGoesLeavesTheSessionAtTheLastToken) {
  // More tokens than any machine makes before it notices.
  constexpr int kMany = 1 << 19;
  RigOptions many;
  many.engine.max_tokens = 2 * kMany;
  many.append_capacity = 2 * kMany;
  GatewayRig rig(many);
  rig.Post("/v1/sessions", {{"session_id", "anna"}});
  rig.rig.decoder.Allow(3);
  json turn = Turn("hello");
  turn["stopping"]["max_tokens"] = kMany;
  turn["stream"] = true;
  {
    HttpPeer peer(rig.port());
    ASSERT_TRUE(peer.Send(
        GatewayRig::Request("POST", "/v1/sessions/anna/generate", turn.dump())));
    ASSERT_TRUE(peer.ReadUntil("\"tokens\""));
  }
  rig.rig.decoder.AllowAll();
  EXPECT_TRUE(Eventually([&] {
    const auto facts = rig.rig.engine->GetSession("anna");
    return facts.ok() && facts->state != SessionState::kRunning &&
           facts->state != SessionState::kQueued;
  }));
  EXPECT_LT(rig.rig.engine->GetSession("anna")->position, kMany);
  EXPECT_GE(rig.rig.engine->GetSession("anna")->position, 5);
}

}  // namespace
}  // namespace mnemon
