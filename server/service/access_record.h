// SPDX-License-Identifier: MIT
// What is known of a call while it goes on, and its access record in the end, for log
// and metrics. Calls of the HTTP API have the records of the methods that carry them
// out.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/log.h"

namespace mnemon {

struct AccessRecord {
  using Seconds = std::chrono::duration<double>;

  std::string method;      // "mnemon.v1.Generation/Generate"; "other" when unknown
  std::string request_id;  // also in the trailer x-request-id
  std::string model;       // name of the loaded model; empty: none is known
  std::string session;     // id; empty: the call names none
  std::optional<absl::StatusCode> status;  // absent: it has none yet
  std::string reason;                      // of an error's ErrorInfo; empty: none
  int64_t prompt_tokens = 0;           // of Score: those whose scores were delivered
  int64_t generated_tokens = 0;        // delivered to the caller
  std::optional<Seconds> queue_time;   // of Generate: from the call to its admission
  std::optional<Seconds> first_token;  // from the call to its first delivered token
  Seconds total{0};                    // from the call to its status
  int64_t sent_bytes = 0;              // of messages
  int64_t received_bytes = 0;
};

// "OK", "NOT_FOUND", ...; empty: it has none yet.
inline std::string StatusName(const AccessRecord& call) {
  return call.status ? absl::StatusCodeToString(*call.status) : "";
}

// Called from threads of the doors, never from a model runner; must not throw.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void OnCallStarted(const std::string& method) = 0;
  virtual void OnCallEnded(const AccessRecord& record) = 0;
};

// Safe for concurrent use: the door of a call and its handler are on different threads.
class CallProgress {
 public:
  // `method`: "mnemon.v1.Generation/Generate", or "other".
  explicit CallProgress(std::string method)
      : start_(std::chrono::steady_clock::now()),
        record_{.method = std::move(method)} {}

  std::string request_id() const {
    std::lock_guard lock(mutex_);
    return record_.request_id;
  }
  // A token, or another result that a retry would repeat, was handed to the door, or
  // was taken from the engine and lost on the way there.
  bool delivered() const {
    std::lock_guard lock(mutex_);
    return delivered_;
  }
  // Once the call is over: its record, which is empty from then on. Needs no memory.
  AccessRecord TakeRecord() {
    std::lock_guard lock(mutex_);
    return std::exchange(record_, {});
  }

  void SetRequestId(std::string id) { Set(record_.request_id, std::move(id)); }
  void SetModel(std::string name) { Set(record_.model, std::move(name)); }
  void SetSession(std::string id) { Set(record_.session, std::move(id)); }
  void SetReason(std::string reason) { Set(record_.reason, std::move(reason)); }
  void SetQueueTime(std::chrono::nanoseconds time) { Set(record_.queue_time, time); }
  void AddPromptTokens(int64_t count) { Add(record_.prompt_tokens, count); }
  // Results other than generated tokens.
  void AddDelivered() { Set(delivered_, true); }
  void AddGeneratedTokens(int64_t count);
  void AddSentBytes(int64_t bytes) { Add(record_.sent_bytes, bytes); }
  void AddReceivedBytes(int64_t bytes) { Add(record_.received_bytes, bytes); }
  // The call has its status; the first one counts. Needs no memory.
  void End(absl::StatusCode code);
  // Replaces the status, which did not reach the caller; no effect before End. Needs no
  // memory.
  void ReplaceEnd(absl::StatusCode code, std::string reason);

 private:
  template <class Field, class Value>
  void Set(Field& field, Value value) {
    std::lock_guard lock(mutex_);
    field = std::move(value);
  }
  void Add(int64_t& field, int64_t count) {
    std::lock_guard lock(mutex_);
    field += count;
  }

  const std::chrono::steady_clock::time_point start_;
  mutable std::mutex mutex_;
  AccessRecord record_;     // guarded by mutex_
  bool delivered_ = false;  // guarded by mutex_
};

// What the caller sent as x-request-id, if it is 1 to 64 letters, digits, '-', '_' and
// '.'; else 16 random hexadecimal digits.
std::string ChooseRequestId(std::string_view sent);

// Logs it as the event "call". Does nothing when memory has run out.
void LogCall(LogLevel level, const AccessRecord& call) noexcept;

// The log line and the metrics of each call. Safe for concurrent use.
class AccessLog {
 public:
  // `observer`: may be null.
  explicit AccessLog(std::shared_ptr<CallObserver> observer)
      : observer_(std::move(observer)) {}

  void Begin(const std::string& method) const {
    if (observer_ != nullptr) observer_->OnCallStarted(method);
  }
  // Record of a call that is over; CANCELLED if it has no status.
  AccessRecord End(CallProgress& progress, LogLevel level = LogLevel::kInfo) const;

 private:
  const std::shared_ptr<CallObserver> observer_;
};

}  // namespace mnemon
