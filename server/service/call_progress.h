// SPDX-License-Identifier: MIT
// What is known of a call so far; its access record in the end.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/service/access_record.h"

namespace mnemon {

// Safe for concurrent use: the door of a call and its handler are on different threads.
class CallProgress {
 public:
  // `method`: "mnemon.v1.Generation/Generate", or "other".
  explicit CallProgress(std::string method);

  std::string request_id() const;
  // A token, or another result that a retry would repeat, was handed to the door, or
  // was taken from the engine and lost on the way there.
  bool delivered() const;
  // Once the call is over: its record, which is empty from then on. Needs no memory.
  AccessRecord TakeRecord();

  void SetRequestId(std::string id);
  void SetModel(const std::string& name);
  void SetSession(const std::string& id);
  void SetReason(const std::string& reason);
  void SetQueueTime(std::chrono::nanoseconds time);
  void AddPromptTokens(int64_t count);
  // Results other than generated tokens.
  void AddDelivered();
  void AddGeneratedTokens(int64_t count);
  void AddSentBytes(int64_t bytes);
  void AddReceivedBytes(int64_t bytes);
  // The call has its status; the first one counts. Needs no memory.
  void End(absl::StatusCode code);
  // Replaces the status, which did not reach the caller; no effect before End. Needs no
  // memory.
  void ReplaceEnd(absl::StatusCode code, std::string reason);

 private:
  const std::chrono::steady_clock::time_point start_;
  mutable std::mutex mutex_;
  AccessRecord record_;     // guarded by mutex_
  bool delivered_ = false;  // guarded by mutex_
};

// What the caller sent as x-request-id, if it is 1 to 64 letters, digits, '-', '_' and
// '.'; else 16 random hexadecimal digits.
std::string ChooseRequestId(std::string_view sent);

}  // namespace mnemon
