// SPDX-License-Identifier: MIT
// The record of the newest call of a session that can be resumed: what it needs to go
// on, or to give its stream again, beside the session's history.
//
// Its text is a JSON object. Keys, each absent where there is no such thing:
//   request_id      text
//   request_hash    text, hexadecimal
//   base, prompt_end, max_tokens, delivered, queue_ns, time_limit_ms   integers
//   prompt, stop_tokens, end_tokens   lists of integers
//   stop_strings    list of texts
//   sampling        as in the record of a session
//   logprobs        object: most_likely, ids
//   introspection   list of texts, the fields
//   on_disconnect   "continue"
//   end             object: size; code, message, reason, field, retry_ms, metadata of
//                   its status where that is not OK; facts, an object: reason,
//                   stop_token, stop_string, generated, prompt_ns, generation_ns
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "server/engine/request.h"

namespace mnemon {

struct CallRecord {
  // How the call ended.
  struct End {
    absl::Status status;
    std::optional<FinishFacts> facts;
    int64_t size = 0;  // tokens of the history then

    bool operator==(const End&) const = default;
  };

  std::string request_id;
  std::string request_hash;     // HashOf the request
  int64_t base = 0;             // tokens of the history before the call
  int64_t prompt_end = 0;       // and with its prompt
  std::vector<int32_t> prompt;  // only while its tokens are not part of the history
  SessionSampling sampling;     // in use, with its seed
  int64_t max_tokens = 0;
  std::vector<int32_t> stop_tokens;
  std::vector<int32_t> end_tokens;
  std::vector<std::string> stop_strings;
  std::optional<std::chrono::milliseconds> time_limit;  // from each admission
  LogprobOptions logprobs;
  IntrospectionFields introspection;
  OnDisconnect on_disconnect = OnDisconnect::kPause;
  std::chrono::nanoseconds queue_time{};  // StartFacts::queue_time
  // Tokens of the history up to the last delivered one, or `base`; absent: not known.
  std::optional<int64_t> delivered;
  std::optional<End> end;  // absent: the call is open

  // Whether the call has tokens to generate, of a session at rest with a history of
  // `size` tokens. An ended call whose tokens were not all delivered has, up to its
  // end.
  bool open(int64_t size) const { return !end || size < end->size; }
  // Whether such a history has tokens that another call cuts first: of an open call,
  // and never delivered.
  bool cuts(int64_t size) const {
    return open(size) && delivered.value_or(size) < size;
  }

  bool operator==(const CallRecord&) const = default;
};

// One with the charge of its prompt, which is on its way into the history.
struct ChargedRecord : CallRecord {
  ChargedRecord(CallRecord record, ByteCharge its_charge)
      : CallRecord(std::move(record)), charge(std::move(its_charge)) {}
  ByteCharge charge;
};
inline int64_t PromptBytes(const CallRecord& record) {
  return static_cast<int64_t>(record.prompt.size() * sizeof(int32_t));
}

// SHA-256, hexadecimal, of all that decides the tokens and the stream of a request.
std::string HashOf(const GenerateRequest& request);

std::string FormatCallRecord(const CallRecord& record);

// Keys of later versions are ignored. DATA_LOSS, SNAPSHOT_DAMAGED, names the key that
// is not as described.
absl::StatusOr<CallRecord> ParseCallRecord(const std::string& text);

}  // namespace mnemon
