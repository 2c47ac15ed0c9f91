// SPDX-License-Identifier: MIT
#include "server/sessions/call_record.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/sessions/record_json.h"
#include "server/sessions/stored_session.h"

namespace mnemon {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::string_view kReasons[] = {"max_tokens",    "stop_token", "stop_string",
                                         "context_limit", "time_limit", "end_token"};

absl::Status DamagedCall(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, StrCat("the record of a call: ", what),
                   {.reason = "SNAPSHOT_DAMAGED"});
}

constexpr RecordReader::Faults kCallFaults = {.damaged = DamagedCall,
                                              .integer = "is not such an integer",
                                              .texts = "is not a list of texts"};

// A status that is not OK.
struct StatusParts {
  int code = 0;
  std::string message;
  ErrorDetail detail = {};
};

constexpr auto kStatusMembers = [](auto& io, auto& status) {
  io("code", status.code);
  io("message", status.message);
  io("reason", status.detail.reason);
  io("field", status.detail.field);
  io("retry_ms", status.detail.retry_after);
  io("metadata", status.detail.metadata);
};

constexpr auto kFactsMembers = [](auto& io, auto& facts) {
  io.Name("reason", facts.reason, kReasons);
  io("stop_token", facts.stop_token);
  io("stop_string", facts.stop_string);
  io("generated", facts.generated_tokens);
  io("prompt_ns", facts.prompt_time);
  io("generation_ns", facts.generation_time);
};

constexpr auto kEndMembers = [](auto& io, auto& end) {
  io("size", end.size);
  io("facts", end.facts, kFactsMembers);
};

constexpr auto kCandidateMembers = [](auto& io, auto& candidates) {
  io("most_likely", candidates.most_likely);
  io("ids", candidates.ids);
};

constexpr auto kParamsMembers = [](auto& io, auto& params) {
  io("request_id", params.request_id);
  io("request_hash", params.request_hash);
  io("max_tokens", params.max_tokens);
  io("stop_tokens", params.stop_tokens);
  io("end_tokens", params.end_tokens);
  io("stop_strings", params.stop_strings);
  io("time_limit_ms", params.time_limit);
};

constexpr auto kCallMembers = [](auto& io, auto& record) {
  io("base", record.base);
  io("prompt_end", record.prompt_end);
  io("prompt", record.prompt);
  io("queue_ns", record.queue_time);
  io("delivered", record.delivered);
  io("end", record.end, kEndMembers);
};

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
    Add(LenientText{.text = prompt.json, .unknown = prompt.unknown});
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
      {.sampling = SessionSampling{.values = request.sampling, .seed = request.seed}}));
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
  json object = {{"sampling", SamplingJson(params.sampling)}};
  RecordWriter to(object);
  kParamsMembers(to, params);
  kCallMembers(to, record);
  if (record.end && !record.end->status.ok()) {
    const absl::Status& status = record.end->status;
    const StatusParts parts{.code = static_cast<int>(status.code()),
                            .message = std::string(status.message()),
                            .detail = GetErrorDetail(status).value_or(ErrorDetail{})};
    to("end", parts, kStatusMembers);
  }
  if (params.logprobs.wanted) {
    to("logprobs", params.logprobs.candidates, kCandidateMembers);
  }
  for (const IntrospectionField& one : kIntrospectionFields) {
    if (params.introspection.*one.field) object["introspection"].push_back(one.name);
  }
  if (params.on_disconnect == OnDisconnect::kContinue) {
    object["on_disconnect"] = "continue";
  }
  // Its texts are UTF-8, unless a fault has made them.
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<CallRecord> ParseCallRecord(const std::string& text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  absl::Status status;
  RecordReader from(object, kCallFaults, status);
  CallRecord record;
  CallParams params;
  kParamsMembers(from, params);
  kCallMembers(from, record);
  StatusParts end;
  from("end", end, kStatusMembers);
  if (end.code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    from.Fail("code", "is unknown");
  } else if (end.code != 0) {
    const auto code = static_cast<absl::StatusCode>(end.code);
    record.end->status = end.detail.reason.empty()
                             ? absl::Status(code, end.message)
                             : MakeError(code, end.message, std::move(end.detail));
  }
  params.logprobs.wanted = from.Find("logprobs") != nullptr;
  from("logprobs", params.logprobs.candidates, kCandidateMembers);
  std::vector<std::string> fields;
  from("introspection", fields);
  for (const IntrospectionField& one : kIntrospectionFields) {
    params.introspection.*one.field = std::ranges::count(fields, one.name) > 0;
  }
  std::string on_disconnect = "pause";
  from("on_disconnect", on_disconnect);
  if (on_disconnect == "continue") {
    params.on_disconnect = OnDisconnect::kContinue;
  } else if (on_disconnect != "pause") {
    from.Fail("on_disconnect", "is unknown");
  }
  MNEMON_RETURN_IF_ERROR(status);
  if (params.request_id.empty()) return DamagedCall("request_id is missing");
  if (record.prompt_end < record.base) return DamagedCall("prompt_end is before base");
  const json* const sampling = from.Find("sampling");
  if (sampling == nullptr) return DamagedCall("sampling is missing");
  MNEMON_ASSIGN_OR_RETURN(params.sampling, ParseSampling(*sampling));
  if (!params.sampling.seed) return DamagedCall("sampling has no seed");
  record.params = std::make_shared<const CallParams>(std::move(params));
  return record;
}

}  // namespace mnemon
