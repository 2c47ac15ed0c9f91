// SPDX-License-Identifier: MIT
#include "server/sessions/call_record.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/sessions/session_record.h"

namespace mnemon {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::array<std::string_view, 6> kReasons = {"max_tokens",  "stop_token",
                                                      "stop_string", "context_limit",
                                                      "time_limit",  "end_token"};

absl::Status DamagedCall(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, StrCat("the record of a call: ", what),
                   {.reason = "SNAPSHOT_DAMAGED"});
}

// Texts of a status and stop strings are UTF-8 but for what a fault made of them.
std::string Dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

json Format(const FinishFacts& facts) {
  json object = {{"reason", kReasons[static_cast<size_t>(facts.reason)]},
                 {"generated", facts.generated_tokens},
                 {"prompt_ns", facts.prompt_time.count()},
                 {"generation_ns", facts.generation_time.count()}};
  if (facts.stop_token) object["stop_token"] = *facts.stop_token;
  if (facts.stop_string) object["stop_string"] = *facts.stop_string;
  return object;
}

json Format(const CallRecord::End& end) {
  json object = {{"size", end.size}};
  if (end.facts) object["facts"] = Format(*end.facts);
  if (end.status.ok()) return object;
  object["code"] = static_cast<int>(end.status.code());
  object["message"] = StrCat(end.status.message());
  const auto detail = GetErrorDetail(end.status);
  if (!detail) return object;
  object["reason"] = detail->reason;
  if (!detail->field.empty()) object["field"] = detail->field;
  if (detail->retry_after) object["retry_ms"] = detail->retry_after->count();
  for (const auto& [key, value] : detail->metadata) object["metadata"][key] = value;
  return object;
}

// Reads the members of one object. The first that is not as it should be is kept.
class CallReader {
 public:
  explicit CallReader(const json& object) : object_(object) {}

  const absl::Status& status() const { return status_; }
  const json* Find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  void Fail(const char* key, std::string_view what) {
    status_.Update(DamagedCall(StrCat(key, " ", what)));
  }

  void Read(const char* key, std::string& to) {
    const json* const value = Find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return Fail(key, "is not a text");
    to = value->get<std::string>();
  }
  // Of a type of integers: not below 0, and one that it holds.
  template <class T>
  requires std::is_integral_v<T>
  void Read(const char* key, T& to) {
    const json* const value = Find(key);
    if (value == nullptr) return;
    if (!IsCount<T>(*value)) return Fail(key, "is not such an integer");
    to = value->get<T>();
  }
  template <class Rep, class Period>
  void Read(const char* key, std::chrono::duration<Rep, Period>& to) {
    int64_t count = to.count();
    Read(key, count);
    to = std::chrono::duration<Rep, Period>(count);
  }
  template <class T>
  void Read(const char* key, std::optional<T>& to) {
    if (Find(key) == nullptr) return;
    Read(key, to.emplace());
  }
  void Read(const char* key, std::vector<int32_t>& to) {
    const json* const value = Find(key);
    if (value == nullptr) return;
    if (!value->is_array()) return Fail(key, "is not a list");
    to.reserve(value->size());
    for (const json& element : *value) {
      if (!IsCount<int32_t>(element))
        return Fail(key, "is not a list of such integers");
      to.push_back(element.get<int32_t>());
    }
  }
  void Read(const char* key, std::vector<std::string>& to) {
    const json* const value = Find(key);
    if (value == nullptr) return;
    if (!value->is_array()) return Fail(key, "is not a list");
    for (const json& element : *value) {
      if (!element.is_string()) return Fail(key, "is not a list of texts");
      to.push_back(element.get<std::string>());
    }
  }
  // Calls read(reader) with the members of an object.
  template <class Body>
  void ReadObject(const char* key, const Body& read) {
    const json* const value = Find(key);
    if (value == nullptr) return;
    if (!value->is_object()) return Fail(key, "is not an object");
    CallReader inner(*value);
    read(inner);
    status_.Update(inner.status());
  }
  void Read(const char* key, std::map<std::string, std::string>& to) {
    ReadObject(key, [&](CallReader& inner) {
      for (const auto& [name, value] : inner.object_.items()) {
        inner.Read(name.c_str(), to[name]);
      }
    });
  }

 private:
  template <class T>
  static bool IsCount(const json& value) {
    if (!value.is_number_integer()) return false;
    const auto number = value.get<int64_t>();
    return number >= 0 &&
           (!value.is_number_unsigned() ||
            value.get<uint64_t>() == static_cast<uint64_t>(number)) &&
           std::in_range<T>(number);
  }

  const json& object_;
  absl::Status status_;
};

void ReadFacts(CallReader& from, FinishFacts& facts) {
  std::string reason;
  from.Read("reason", reason);
  const auto found = std::find(kReasons.begin(), kReasons.end(), reason);
  if (found == kReasons.end()) return from.Fail("reason", "is unknown");
  facts.reason = static_cast<FinishReason>(found - kReasons.begin());
  from.Read("stop_token", facts.stop_token);
  from.Read("stop_string", facts.stop_string);
  from.Read("generated", facts.generated_tokens);
  from.Read("prompt_ns", facts.prompt_time);
  from.Read("generation_ns", facts.generation_time);
}

void ReadEnd(CallReader& from, CallRecord::End& end) {
  int code = 0;
  std::string message;
  ErrorDetail detail;
  from.Read("size", end.size);
  from.Read("code", code);
  from.Read("message", message);
  from.Read("reason", detail.reason);
  from.Read("field", detail.field);
  from.Read("retry_ms", detail.retry_after);
  from.Read("metadata", detail.metadata);
  from.ReadObject("facts",
                  [&](CallReader& facts) { ReadFacts(facts, end.facts.emplace()); });
  if (code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return from.Fail("code", "is unknown");
  }
  if (code == 0) return;
  const auto of = static_cast<absl::StatusCode>(code);
  end.status = detail.reason.empty() ? absl::Status(of, message)
                                     : MakeError(of, message, std::move(detail));
}

void ReadIntrospection(CallReader& from, IntrospectionFields& to) {
  std::vector<std::string> names;
  from.Read("introspection", names);
  for (const IntrospectionField& one : kIntrospectionFields) {
    to.*one.field = std::ranges::find(names, one.name) != names.end();
  }
}

// Texts of a hash, so that what is hashed can be divided in one way only.
class Hash {
 public:
  void Add(std::string_view text) {
    sha_.Update(StrCat(text.size(), ":"));
    sha_.Update(text);
  }
  void Add(int64_t number) { Add(StrCat(number)); }
  void Add(const std::vector<int32_t>& numbers) { Add(StrJoin(numbers, ",")); }
  void Add(const LenientText& prompt) {
    Add(prompt.text);
    Add(static_cast<int64_t>(prompt.unknown));
  }
  void Add(const ConversationText& prompt) {
    Add(prompt.json);
    Add(static_cast<int64_t>(prompt.unknown));
  }
  std::string Digest() { return sha_.HexDigest(); }

 private:
  Sha256 sha_;
};

}  // namespace

std::string HashOf(const GenerateRequest& request) {
  Hash hash;
  hash.Add(static_cast<int64_t>(request.prompt.index()));
  std::visit([&](const auto& prompt) { hash.Add(prompt); }, request.prompt);
  // Without effect where the session's sampling is used, but told apart all the same.
  hash.Add(request.session_sampling);
  hash.Add(FormatSessionRecord(
      {.ttl = {},
       .sampling = SessionSampling{.values = request.sampling, .seed = request.seed}}));
  hash.Add(request.max_tokens.value_or(-1));
  hash.Add(request.stop_tokens);
  hash.Add(static_cast<int64_t>(request.stop_strings.size()));
  for (const std::string& string : request.stop_strings) hash.Add(string);
  hash.Add(request.time_limit.value_or(milliseconds(-1)).count());
  hash.Add(request.logprobs.wanted);
  hash.Add(request.logprobs.candidates.most_likely);
  hash.Add(request.logprobs.candidates.ids);
  hash.Add(static_cast<int64_t>(request.on_disconnect));
  // Absent, it leaves the hashes of sessions that older versions have stored.
  if (request.introspection.any()) hash.Add(NamesOf(request.introspection));
  if (request.ignore_end) hash.Add("ignore_end");
  return hash.Digest();
}

bool CallRecord::operator==(const CallRecord& other) const {
  const auto rest = [](const CallRecord& record) {
    return std::tie(record.base, record.prompt_end, record.prompt, record.queue_time,
                    record.delivered, record.end);
  };
  return *params == *other.params && rest(*this) == rest(other);
}

std::string FormatCallRecord(const CallRecord& record) {
  const CallParams& params = *record.params;
  json object = {{"request_id", params.request_id},
                 {"request_hash", params.request_hash},
                 {"base", record.base},
                 {"prompt_end", record.prompt_end},
                 {"max_tokens", params.max_tokens},
                 {"queue_ns", record.queue_time.count()}};
  object["sampling"] = json::parse(
      FormatSessionRecord({.ttl = {}, .sampling = params.sampling}))["sampling"];
  if (!record.prompt.empty()) object["prompt"] = record.prompt;
  if (!params.stop_tokens.empty()) object["stop_tokens"] = params.stop_tokens;
  if (!params.end_tokens.empty()) object["end_tokens"] = params.end_tokens;
  if (!params.stop_strings.empty()) object["stop_strings"] = params.stop_strings;
  if (params.time_limit) object["time_limit_ms"] = params.time_limit->count();
  if (params.logprobs.wanted) {
    const CandidateChoice& candidates = params.logprobs.candidates;
    object["logprobs"] = {{"most_likely", candidates.most_likely},
                          {"ids", candidates.ids}};
  }
  for (const IntrospectionField& one : kIntrospectionFields) {
    if (params.introspection.*one.field) object["introspection"].push_back(one.name);
  }
  if (params.on_disconnect == OnDisconnect::kContinue) {
    object["on_disconnect"] = "continue";
  }
  if (record.delivered) object["delivered"] = *record.delivered;
  if (record.end) object["end"] = Format(*record.end);
  return Dump(object);
}

absl::StatusOr<CallRecord> ParseCallRecord(const std::string& text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return DamagedCall("not a JSON object");
  CallReader from(object);
  CallRecord record;
  CallParams params;
  from.Read("request_id", params.request_id);
  from.Read("request_hash", params.request_hash);
  from.Read("base", record.base);
  from.Read("prompt_end", record.prompt_end);
  from.Read("prompt", record.prompt);
  from.Read("max_tokens", params.max_tokens);
  from.Read("stop_tokens", params.stop_tokens);
  from.Read("end_tokens", params.end_tokens);
  from.Read("stop_strings", params.stop_strings);
  from.Read("time_limit_ms", params.time_limit);
  from.Read("queue_ns", record.queue_time);
  from.Read("delivered", record.delivered);
  from.ReadObject("logprobs", [&](CallReader& inner) {
    params.logprobs.wanted = true;
    inner.Read("most_likely", params.logprobs.candidates.most_likely);
    inner.Read("ids", params.logprobs.candidates.ids);
  });
  ReadIntrospection(from, params.introspection);
  std::string on_disconnect = "pause";
  from.Read("on_disconnect", on_disconnect);
  if (on_disconnect == "continue") {
    params.on_disconnect = OnDisconnect::kContinue;
  } else if (on_disconnect != "pause") {
    from.Fail("on_disconnect", "is unknown");
  }
  from.ReadObject("end", [&](CallReader& end) { ReadEnd(end, record.end.emplace()); });
  MNEMON_RETURN_IF_ERROR(from.status());
  if (params.request_id.empty()) return DamagedCall("request_id is missing");
  if (record.prompt_end < record.base) return DamagedCall("prompt_end is before base");
  const json* const sampling = from.Find("sampling");
  if (sampling == nullptr) return DamagedCall("sampling is missing");
  MNEMON_ASSIGN_OR_RETURN(SessionRecord of,
                          ParseSessionRecord(Dump({{"sampling", *sampling}})));
  if (!of.sampling->seed) return DamagedCall("sampling has no seed");
  params.sampling = *std::move(of.sampling);
  record.params = std::make_shared<const CallParams>(std::move(params));
  return record;
}

}  // namespace mnemon
