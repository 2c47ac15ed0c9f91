// SPDX-License-Identifier: MIT
// OpenAI's responses over HTTP: sessions that fork.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/http_peer.h"
#include "tests/server/gateway/gateway_rig.h"

namespace mnemon {
namespace {

using nlohmann::json;

std::string TextOf(json response) {
  return response["output"][0]["content"][0]["text"];
}

json Request(const std::string& input, const std::string& previous = "") {
  json request = {{"input", input}, {"max_output_tokens", 6}, {"seed", 5}};
  if (!previous.empty()) request["previous_response_id"] = previous;
  return request;
}

std::string SessionOf(json response) {
  return "resp-" + response["id"].get<std::string>().substr(5);
}

TEST(Responses, TheNextOneGoesOnFromAFork) {
  GatewayRig rig;
  JsonAnswer answer = rig.Post("/v1/responses", Request("hi"));
  ASSERT_EQ(answer.code, 200) << answer.body;
  json& first = answer.body;
  EXPECT_EQ(first["status"], "incomplete");
  EXPECT_EQ(first["usage"]["input_tokens"], 3);
  const std::string id = first["id"];
  json second = rig.Post("/v1/responses", Request("and", id)).body;
  json other = rig.Post("/v1/responses", Request("bet", id)).body;
  // The answer before is ended by a line, as the template has it.
  EXPECT_EQ(second["usage"]["input_tokens"], 5) << second;
  const auto parent = rig.rig.engine->GetSession(SessionOf(first));
  const auto child = rig.rig.engine->GetSession(SessionOf(second));
  ASSERT_TRUE(parent.ok() && child.ok());
  EXPECT_EQ(child->parent, parent->id);
  EXPECT_EQ(parent->position, 9);
  EXPECT_EQ(child->position, 9 + 5 + 6);
  EXPECT_NE(other["id"], second["id"]);
  EXPECT_EQ(second["previous_response_id"], id);

  // As one text in one session.
  client::GenerateOptions options;
  options.text = "hi\n" + TextOf(first) + "\nand\n";
  options.stopping.max_tokens = 6;
  options.sampling.seed = 5;
  EXPECT_EQ(Collect(*rig.rig.client, options).text, TextOf(second));
}

TEST(Responses, AProgramAddsWhatIsNew) {
  RigOptions options;
  options.chat_program =
      "{% for m in messages %}{{ m.role | replace('user', 'q') | first }} {{ m.content "
      "}}.\n{% endfor %}"
      "{% if add_generation_prompt %}a {% endif %}";
  GatewayRig rig(options);
  json first = rig.Post("/v1/responses", Request("hi")).body;
  ASSERT_EQ(first["usage"]["input_tokens"], 8) << first;  // "q hi.", a line, "a "
  json second = rig.Post("/v1/responses", Request("and", first["id"])).body;
  ASSERT_EQ(second["usage"]["input_tokens"], 2 + 9) << second;
  client::GenerateOptions whole;
  whole.text = "q hi.\na " + TextOf(first) + ".\nq and.\na ";
  whole.stopping.max_tokens = 6;
  whole.sampling.seed = 5;
  EXPECT_EQ(Collect(*rig.rig.client, whole).text, TextOf(second));

  // An end that the model has written is not written again.
  const auto last = rig.rig.engine->Tokenize("toy", ".");
  options.generation.end_tokens = {last->tokens[0]};
  GatewayRig ends(options);
  json request = Request("hi");
  request["logit_bias"] = {{StrCat(last->tokens[0]), 100}};
  first = ends.Post("/v1/responses", request).body;
  EXPECT_EQ(first["status"], "completed");
  second = ends.Post("/v1/responses", Request("and", first["id"])).body;
  EXPECT_EQ(second["usage"]["input_tokens"], 1 + 9) << second;

  options.chat_program =
      "{% for m in messages %}{{ m.role | replace('user', 'q') | first }}{{ '' if "
      "loop.last else m.content }}\n"
      "{% endfor %}";
  GatewayRig other(options);
  first = other.Post("/v1/responses", Request("hi")).body;
  second = other.Post("/v1/responses", Request("and", first["id"])).body;
  EXPECT_EQ(second["error"]["param"], "input") << second;
}

TEST(Responses, AStreamHasTheEventsInTheirOrder) {
  GatewayRig rig;
  json whole = rig.Post("/v1/responses", Request("hi")).body;
  json request = Request("hi");
  request["stream"] = true;
  std::vector<json> events = rig.Events("/v1/responses", request);
  std::string text;
  std::vector<std::string> types;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    const std::string type = events[i]["type"];
    if (type == "response.output_text.delta") {
      text += events[i]["delta"].get<std::string>();
    } else {
      types.push_back(type);
    }
  }
  EXPECT_EQ(text, TextOf(whole));
  EXPECT_EQ(types, (std::vector<std::string>{
                       "response.created", "response.in_progress",
                       "response.output_item.added", "response.content_part.added",
                       "response.output_text.done", "response.content_part.done",
                       "response.output_item.done", "response.incomplete"}));
  EXPECT_EQ(TextOf(events.back()["response"]), text);
}

TEST(Responses, AStopStringLeavesTheSessionAtTheText) {
  GatewayRig rig;
  const std::string text = TextOf(rig.Post("/v1/responses", Request("hi")).body);
  json request = Request("hi");
  request["stop"] = text.substr(3, 2);
  json response = rig.Post("/v1/responses", request).body;
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(TextOf(response), text.substr(0, text.find(text.substr(3, 2))));
  const auto session = rig.rig.engine->GetSession(SessionOf(response));
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(session->position, 3 + static_cast<int64_t>(TextOf(response).size()));
}

TEST(Responses, WhatIsNotStoredOrFailsLeavesNothing) {
  GatewayRig rig;
  json request = Request("hi");
  request["store"] = false;
  EXPECT_EQ(rig.Post("/v1/responses", request).code, 200);
  EXPECT_TRUE(Eventually([&] { return rig.rig.engine->Stats().sessions == 0; }));
  JsonAnswer failed = rig.Post("/v1/responses", Request("\u20ac"));
  EXPECT_EQ(failed.code, 400);
  EXPECT_EQ(failed.body["error"]["param"], "input");
  EXPECT_TRUE(Eventually([&] { return rig.rig.engine->Stats().sessions == 0; }));
  JsonAnswer unknown = rig.Post("/v1/responses", Request("hi", "resp_0123"));
  EXPECT_EQ(unknown.code, 404);
  EXPECT_EQ(unknown.body["error"]["code"], "RESPONSE_NOT_FOUND");
  EXPECT_EQ(unknown.body["error"]["param"], "previous_response_id");
  EXPECT_EQ(rig.Post("/v1/responses", Request("hi", "x")).code, 400);
}

TEST(Responses, GoOnWithTheModelOfThePreviousOne) {
  RigOptions two;
  two.models = {"toy", "other"};
  GatewayRig rig(two);
  json request = Request("hi");
  request["model"] = "toy";
  const std::string id = rig.Post("/v1/responses", request).body["id"];
  json next = Request("and", id);
  EXPECT_EQ(rig.Post("/v1/responses", next).body["model"], "toy");
  next["model"] = "other";
  JsonAnswer wrong = rig.Post("/v1/responses", next);
  EXPECT_EQ(wrong.code, 400);
  EXPECT_EQ(wrong.body["error"]["code"], "MODEL_MISMATCH");
}

TEST(Responses, APeerThatGoesLeavesNothing) {
  // More tokens than any machine makes before it notices.
  constexpr int kMany = 1 << 19;
  RigOptions many;
  many.engine.max_tokens = 2 * kMany;
  many.append_capacity = 2 * kMany;
  GatewayRig rig(many);
  rig.rig.decoder.Allow(1);
  {
    HttpPeer peer(rig.port());
    json request = Request("hi");
    request["max_output_tokens"] = kMany;
    ASSERT_TRUE(
        peer.Send(GatewayRig::Request("POST", "/v1/responses", request.dump())));
    ASSERT_TRUE(Eventually([&] { return rig.rig.engine->Stats().running == 1; }));
  }
  rig.rig.decoder.AllowAll();
  EXPECT_TRUE(Eventually([&] {
    const EngineStats now = rig.rig.engine->Stats();
    return now.sessions == 0 && now.running == 0;
  }));
}

// Its client may go as soon as it has been told the end, while the gateway has other
// things to do.
TEST(Responses, WhatWasToldWholeStays) {
  GatewayRig rig;
  std::string large = "[0";
  while (large.size() < 1 << 20) large += ",0";
  std::atomic<bool> over = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!over) rig.Send("POST", "/v1/tokenize", large);
    });
  }
  json request = Request("hi");
  request["stream"] = true;
  const std::string text = GatewayRig::Request("POST", "/v1/responses", request.dump());
  constexpr int kStreams = 50;
  for (int i = 0; i < kStreams; ++i) {
    HttpPeer peer(rig.port());
    ASSERT_TRUE(peer.Send(text));
    EXPECT_TRUE(peer.ReadUntil("event: response.incomplete"));
  }
  over = true;
  for (std::thread& other : others) other.join();
  // No call is left then.
  rig.http->Stop();
  rig.gateway.reset();
  const auto sessions = rig.rig.client->ListSessions();
  ASSERT_TRUE(sessions.ok()) << sessions.status();
  EXPECT_EQ(sessions->size(), static_cast<size_t>(kStreams));
}

TEST(Responses, NameTheFieldsOfTheirCaller) {
  GatewayRig rig;
  const auto param = [&](json request) {
    JsonAnswer answer = rig.Post("/v1/responses", request);
    EXPECT_EQ(answer.code / 100, 4) << answer.body;
    return answer.body["error"]["param"];
  };
  EXPECT_EQ(param({{"input", "hi"}, {"previous_response_id", "resp_ABC"}}),
            "previous_response_id");
  EXPECT_EQ(param({{"input", "hi"}, {"model", "no model"}}), "model");
  EXPECT_EQ(param({{"input", "hi"}, {"max_output_tokens", 1 << 30}}),
            "max_output_tokens");
  EXPECT_EQ(param({{"input", "hi"}, {"metadata", {1, 2}}}), "metadata");
  EXPECT_EQ(param({{"input", "hi"}, {"metadata", {{"a", std::string(513, 'x')}}}}),
            "metadata");
  EXPECT_EQ(rig.Json("DELETE", "/v1/responses/resp_ABC").body["error"]["param"],
            "response_id");
}

TEST(Responses, CanBeDeleted) {
  GatewayRig rig;
  json response = rig.Post("/v1/responses", Request("hi")).body;
  const std::string path = "/v1/responses/" + response["id"].get<std::string>();
  EXPECT_EQ(rig.Json("DELETE", path).body["deleted"], true);
  EXPECT_EQ(rig.Json("DELETE", path).code, 404);
  EXPECT_EQ(rig.rig.engine->Stats().sessions, 0);
}

}  // namespace
}  // namespace mnemon
