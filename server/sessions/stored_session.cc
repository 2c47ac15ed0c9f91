// SPDX-License-Identifier: MIT
#include "server/sessions/stored_session.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/requests/request_check.h"
#include "server/sessions/record_json.h"

namespace mnemon {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

absl::Status DamagedRecord(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss,
                   StrCat("the record of the session: ", what),
                   {.reason = "SNAPSHOT_DAMAGED"});
}

// Calls visit(name, member) for each number of the sampling.
template <class Sampling, class Visit>
void VisitSampling(Sampling& sampling, const Visit& visit) {
  visit("temperature", sampling.temperature);
  visit("top_k", sampling.top_k);
  visit("top_p", sampling.top_p);
  visit("min_p", sampling.min_p);
  visit("typical_p", sampling.typical_p);
  visit("repetition_penalty", sampling.repetition_penalty);
  visit("frequency_penalty", sampling.frequency_penalty);
  visit("presence_penalty", sampling.presence_penalty);
  visit("penalty_window_tokens", sampling.penalty_window_tokens);
}

absl::Status DamagedSession(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss,
                   StrCat("the stored record of the session: ", what),
                   {.reason = "RECORD_DAMAGED"});
}

constexpr RecordReader::Faults kSessionFaults = {.damaged = DamagedSession,
                                                 .integer = "is not a whole number",
                                                 .texts = "has what is no text"};

constexpr auto kSnapshotMembers = []<class Io>(Io& io, auto& snapshot) {
  io("name", snapshot.name);
  // Only format 1 has it.
  if constexpr (std::is_same_v<Io, RecordReader>) io("sequence", snapshot.sequence);
  io("tokens", snapshot.tokens);
  io("computed", snapshot.computed);
};

constexpr auto kCheckpointMembers = []<class Io>(Io& io, auto& checkpoint) {
  io("id", checkpoint.id);
  io("request_id", checkpoint.request_id);
  io("create_time", checkpoint.create_time);
  if constexpr (std::is_same_v<Io, RecordReader>) {
    if (!io.Find("snapshot")) io.Damaged("a checkpoint without a snapshot");
  }
  io("snapshot", checkpoint.snapshot, kSnapshotMembers);
};

constexpr auto kSessionMembers = [](auto& io, auto& session) {
  io("epoch", session.epoch);
  io("sequence", session.sequence);
  io("model", session.model);
  io("model_id", session.model_id);
  io("create_time", session.create_time);
  io("last_use_time", session.last_use_time);
  io("expire_time", session.expire_time);
  io("paused", session.paused);
  io("rebuilt", session.rebuilt);
  io("parent", session.parent);
  io("request_id", session.request_id);
  if (!session.request_id.empty()) {
    io("request_text", session.request_text);
    io("drawn_id", session.drawn_id);
  }
  io("request_ids", session.request_ids);
  io("newest_call", session.newest_call);
  io("scored_from", session.scored_from);
  io("snapshots", session.snapshots, kSnapshotMembers);
  io("checkpoints", session.checkpoints, kCheckpointMembers);
};

constexpr const char* kDurabilityNames[] = {"none", "turn", "always"};

}  // namespace

json SamplingJson(const SessionSampling& sampling) {
  json object = json::object();
  VisitSampling(sampling.values,
                [&](const char* name, const auto& value) { object[name] = value; });
  for (const LogitBias& entry : sampling.values.logit_bias) {
    json bias = std::isfinite(entry.bias) ? json(entry.bias) : json();
    object["logit_bias"].push_back(json::array({entry.token, std::move(bias)}));
  }
  if (sampling.seed) object["seed"] = StrCat(*sampling.seed);
  return object;
}

absl::StatusOr<SessionSampling> ParseSampling(const json& object) {
  if (!object.is_object()) return DamagedRecord("sampling is not an object");
  SessionSampling sampling;
  absl::Status status;
  VisitSampling(sampling.values, [&]<class T>(const char* name, T& value) {
    const auto found = object.find(name);
    if (found == object.end()) return;
    const bool fits =
        std::is_integral_v<T> ? found->is_number_integer() : found->is_number();
    if (!fits) return status.Update(DamagedRecord(StrCat(name, " is no such number")));
    value = found->get<T>();
  });
  MNEMON_RETURN_IF_ERROR(status);
  for (const json& entry : object.value("logit_bias", json::array())) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_number_integer() ||
        !(entry[1].is_number() || entry[1].is_null())) {
      return DamagedRecord("logit_bias is not a list of [token, bias]");
    }
    sampling.values.logit_bias.push_back(
        {.token = entry[0].get<int32_t>(),
         .bias = entry[1].is_null() ? -std::numeric_limits<float>::infinity()
                                    : entry[1].get<float>()});
  }
  if (const auto seed = object.find("seed"); seed != object.end()) {
    uint64_t value = 0;
    if (!seed->is_string()) return DamagedRecord("seed is not a text");
    const auto& text = seed->get_ref<const std::string&>();
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      return DamagedRecord("seed is not a number");
    }
    sampling.seed = value;
  }
  return sampling;
}

std::string FormatSessionRecord(const SessionSettings& settings) {
  json object = json::object();
  if (settings.ttl) object["ttl_ms"] = settings.ttl->count();
  if (settings.sampling) object["sampling"] = SamplingJson(*settings.sampling);
  return object.dump();
}

absl::StatusOr<SessionSettings> ParseSessionRecord(const std::string& text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return DamagedRecord("not a JSON object");
  SessionSettings settings;
  if (const auto ttl = object.find("ttl_ms"); ttl != object.end()) {
    if (!ttl->is_number_integer()) return DamagedRecord("ttl_ms is not an integer");
    settings.ttl = milliseconds(ttl->get<int64_t>());
    if (!CheckTtl(settings.ttl).ok()) return DamagedRecord("ttl_ms is out of range");
  }
  if (const auto sampling = object.find("sampling"); sampling != object.end()) {
    MNEMON_ASSIGN_OR_RETURN(settings.sampling, ParseSampling(*sampling));
  }
  return settings;
}

std::optional<std::chrono::system_clock::time_point> StoredSession::expiry() const {
  if (ttl) return last_use_time + *ttl;
  return expire_time;
}

std::string FormatStoredSession(const StoredSession& session) {
  json object = {
      {"format", StoredSession::kFormat},
      {"durability", kDurabilityNames[static_cast<size_t>(session.durability)]},
      {"settings",
       FormatSessionRecord({.ttl = session.ttl, .sampling = session.sampling})}};
  RecordWriter to(object);
  kSessionMembers(to, session);
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<StoredSession> ParseStoredSession(const std::string& text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  StoredSession session;
  absl::Status status;
  RecordReader from(object, kSessionFaults, status);
  session.format = 0;
  from("format", session.format);
  if (status.ok() && session.format > StoredSession::kFormat) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     StrCat("the record of the session has format ", session.format,
                            ", this server reads up to ", StoredSession::kFormat),
                     {.reason = "STORE_FORMAT"});
  }
  kSessionMembers(from, session);
  std::string durability, settings = "{}";
  from("durability", durability);
  session.durability = durability == "always" ? Durability::kAlways : Durability::kTurn;
  if (durability != kDurabilityNames[static_cast<size_t>(session.durability)]) {
    from.Fail("durability", "is not a level");
  }
  from("settings", settings);
  MNEMON_RETURN_IF_ERROR(status);
  MNEMON_ASSIGN_OR_RETURN(SessionSettings kept, ParseSessionRecord(settings));
  session.ttl = kept.ttl;
  session.sampling = std::move(kept.sampling);
  return session;
}

}  // namespace mnemon
