// SPDX-License-Identifier: MIT
#include "server/sessions/session_record.h"

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

namespace mnemon {
namespace {

using nlohmann::json;

constexpr char kTtl[] = "ttl_ms", kSampling[] = "sampling";

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

json Format(const SessionSampling& sampling) {
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

absl::StatusOr<SessionSampling> Parse(const json& object) {
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

}  // namespace

std::string FormatSessionRecord(const SessionRecord& record) {
  json object = json::object();
  if (record.ttl) object[kTtl] = record.ttl->count();
  if (record.sampling) object[kSampling] = Format(*record.sampling);
  return object.dump();
}

absl::StatusOr<SessionRecord> ParseSessionRecord(const std::string& text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return DamagedRecord("not a JSON object");
  SessionRecord record;
  if (const auto ttl = object.find(kTtl); ttl != object.end()) {
    if (!ttl->is_number_integer()) return DamagedRecord("ttl_ms is not an integer");
    record.ttl = std::chrono::milliseconds(ttl->get<int64_t>());
    if (!CheckTtl(record.ttl).ok()) return DamagedRecord("ttl_ms is out of range");
  }
  if (const auto sampling = object.find(kSampling); sampling != object.end()) {
    MNEMON_ASSIGN_OR_RETURN(record.sampling, Parse(*sampling));
  }
  return record;
}

}  // namespace mnemon
