// SPDX-License-Identifier: MIT
#include "client/commands/session_json.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "client/messages.h"
#include "client/terminal/sampling_fields.h"
#include "client/terminal/session_text.h"
#include "nlohmann/json.hpp"

namespace mnemon::client {
namespace {

using Json = nlohmann::ordered_json;

// "2026-01-31T08:00:00.250000Z".
std::string Microseconds(SystemTime time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const auto rest = std::chrono::duration_cast<std::chrono::microseconds>(time - whole);
  std::string text = UtcText(time);
  text.pop_back();
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%06dZ",
                static_cast<int>(rest.count()));
  return text + fraction.data();
}

void SetTime(const char* name, const std::optional<SystemTime>& time, Json& json) {
  if (time) json[name] = Microseconds(*time);
}

void SetText(const char* name, const std::string& text, Json& json) {
  if (!text.empty()) json[name] = text;
}

Json SamplingJson(const SamplingOptions& sampling) {
  Json json = Json::object();
  VisitSampling(sampling, [&](const char* name, const auto& field) {
    if (field) json[name] = *field;
  });
  for (const TokenBias& one : sampling.logit_bias) {
    // Like protobuf: JSON has no infinity.
    const Json bias = std::isinf(one.bias) ? Json("-Infinity") : Json(one.bias);
    json["logit_bias"].push_back({{"token_id", one.token}, {"bias", bias}});
  }
  return json;
}

Json CheckpointJson(const SessionCheckpoint& checkpoint) {
  Json json = {{"checkpoint_id", checkpoint.id},
               {"token_count", checkpoint.position},
               {"size_bytes", checkpoint.size_bytes}};
  SetTime("create_time", checkpoint.create_time, json);
  return json;
}

Json SessionJson(const Session& session) {
  Json json = {{"name", SessionResource(session.id)},
               {"model", ModelResource(session.model)}};
  SetText("state", session.state, json);
  json["token_count"] = session.position;
  json["state_size_bytes"] = session.state_size_bytes;
  SetTime("create_time", session.create_time, json);
  SetTime("last_use_time", session.last_use_time, json);
  SetTime("expire_time", session.expire_time, json);
  SetText("etag", session.etag, json);
  SetText("parent", SessionResource(session.parent), json);
  json["rebuilt"] = session.rebuilt;
  SetText("durability", session.durability, json);
  json["sampling"] = SamplingJson(session.sampling);
  json["paused"] = session.paused;
  SetText("tier", session.tier, json);
  SetText("model_id", session.model_id, json);
  SetText("numerics_id", session.numerics_id, json);
  json["checkpoints"] = Json::array();
  for (const SessionCheckpoint& one : session.checkpoints) {
    json["checkpoints"].push_back(CheckpointJson(one));
  }
  return json;
}

// Text that is not UTF-8 must not throw.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string ToJson(const Session& session) { return Dump(SessionJson(session)); }

std::string ToJson(const SessionPage& page) {
  Json sessions = Json::array();
  for (const Session& one : page.sessions) sessions.push_back(SessionJson(one));
  return Dump({{"sessions", sessions}, {"next_page_token", page.next_page_token}});
}

std::string ToJson(const SessionCheckpoint& checkpoint) {
  return Dump(CheckpointJson(checkpoint));
}

std::string ToJson(const ExportedSession& exported) {
  return Dump({{"session", SessionJson(exported.session)},
               {"size_bytes", exported.size_bytes}});
}

std::string ToJson(const Verification& verification) {
  Json json = {{"stored_form_valid", verification.stored_form_valid}};
  if (verification.replay_equal) json["replay_equal"] = *verification.replay_equal;
  json["token_count"] = verification.position;
  json["state_size_bytes"] = verification.state_size_bytes;
  SetText("first_difference", verification.first_difference, json);
  return Dump(json);
}

}  // namespace mnemon::client
