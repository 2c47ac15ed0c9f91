// SPDX-License-Identifier: MIT
// The record of a session's newest call, for resuming it: what the call needs beside
// the session's history to go on or to repeat its stream.
//
// Its text form is a JSON object. Keys, each absent if there is no value:
//   request_id      text
//   request_hash    text, hexadecimal
//   base, prompt_end, max_tokens, delivered, queue_ns, time_limit_ms   integers
//   prompt, stop_tokens, end_tokens   lists of integers
//   stop_strings    list of texts
//   sampling        as in the record of a session
//   logprobs        object: most_likely, ids
//   introspection   list of texts, the fields
//   on_disconnect   "continue"
//   end             object: size; code, message, reason, field, retry_ms, metadata of a
//                   status that is not OK; facts, an object: reason, stop_token,
//                   stop_string, generated, prompt_ns, generation_ns
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/memory/byte_budget.h"
#include "server/requests/call_params.h"

namespace mnemon {

struct CallRecord {
  // How the call ended.
  struct End {
    absl::Status status;
    std::optional<FinishFacts> facts;
    int64_t size = 0;  // tokens in the history at the end

    bool operator==(const End&) const = default;
  };

  std::shared_ptr<const CallParams> params;  // not null
  int64_t base = 0;                          // tokens in the history before the call
  int64_t prompt_end = 0;                    // the same with the prompt
  std::vector<int32_t> prompt;  // only while its tokens are not in the history
  std::chrono::nanoseconds queue_time{};  // StartFacts::queue_time
  // Tokens in the history up to the last delivered one, or `base`; absent: unknown.
  std::optional<int64_t> delivered;
  std::optional<End> end;  // absent: the call is open

  // Whether the call has tokens left to generate when the session rests with a history
  // of `size` tokens. This includes an ended call whose history was cut to the
  // delivered tokens.
  bool open(int64_t size) const { return !end || size < end->size; }
  // Whether the next call has to cut the history first: the call is open, and some of
  // its tokens were never delivered.
  bool cuts(int64_t size) const {
    return open(size) && delivered.value_or(size) < size;
  }

  bool operator==(const CallRecord& other) const;
};

// A record with the charge for its prompt, which is not in the history yet.
struct ChargedRecord : CallRecord {
  ChargedRecord(CallRecord record, ByteCharge its_charge)
      : CallRecord(std::move(record)), charge(std::move(its_charge)) {}
  ByteCharge charge;
};
inline int64_t PromptBytes(const CallRecord& record) {
  return static_cast<int64_t>(record.prompt.size() * sizeof(int32_t));
}

// SHA-256, hexadecimal, of everything that determines the tokens and the stream of a
// request.
std::string HashOf(const GenerateRequest& request);

std::string FormatCallRecord(const CallRecord& record);

// Unknown keys, of later versions, are ignored. DATA_LOSS, SNAPSHOT_DAMAGED, names the
// malformed key.
absl::StatusOr<CallRecord> ParseCallRecord(const std::string& text);

}  // namespace mnemon
