// SPDX-License-Identifier: MIT
// The access record of one call, for log and metrics. Calls of the HTTP API have those
// of the methods that carry them out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

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

// Logs it as the event "call". Does nothing when memory has run out.
void LogCall(LogLevel level, const AccessRecord& call) noexcept;

// Called from threads of the doors, never from a model runner; must not throw.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void OnCallStarted(const std::string& method) = 0;
  virtual void OnCallEnded(const AccessRecord& record) = 0;
};

}  // namespace mnemon
