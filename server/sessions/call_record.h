// SPDX-License-Identifier: MIT
// The record of a session's newest call: what the call needs beside the history to go
// on, or to repeat its stream.
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
#include "server/requests/request.h"

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
  // of `size` tokens, to which that of an ended call may have been cut.
  bool open(int64_t size) const { return !end || size < end->size; }
  // Whether the next call has to cut the history first: some tokens of an open call
  // were never delivered.
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

// SHA-256, hexadecimal, of all that determines the tokens and the stream of a request.
std::string HashOf(const GenerateRequest& request);

// A JSON object.
std::string FormatCallRecord(const CallRecord& record);

// Unknown keys, of later versions, are ignored. DATA_LOSS, SNAPSHOT_DAMAGED, names the
// malformed key.
absl::StatusOr<CallRecord> ParseCallRecord(const std::string& text);

}  // namespace mnemon
