// SPDX-License-Identifier: MIT
// The caller of one call, as the door it came by knows it: gRPC or the HTTP API.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <optional>

#include "absl/status/status.h"
#include "server/service/access_record.h"
#include "server/service/public_error.h"
#include "server/transport/connection.h"

namespace mnemon {

// Safe for concurrent use. The door keeps it until the call is over.
class Caller {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~Caller() = default;

  virtual CallProgress& progress() = 0;
  // Absent: the call has none. One that has passed stays in the past.
  virtual std::optional<Time> deadline() const = 0;
  // The caller has cancelled the call, or its connection is closed.
  virtual bool gone() const = 0;
  // Its traffic tells whether the caller reads; null: none tells.
  virtual std::shared_ptr<const Connection> connection() const = 0;
  // A function that makes the door drop messages which the caller does not take, so
  // that the call can end. Safe for concurrent use, also after the call.
  virtual std::function<void(const absl::Status&)> CancelFunction() = 0;
};

// Events of a unary call. They come one at a time.
class CallEvents {
 public:
  virtual ~CallEvents() = default;
  // The caller has cancelled the call, or its connection is closed.
  virtual void OnGone() = 0;
  // The call is over. The last event.
  virtual void OnDone() = 0;
};

// The caller of a call with one request and one response.
class UnaryCaller : public Caller {
 public:
  // Sends the events of the call to `events`. At most once, when the call begins.
  virtual void Watch(std::shared_ptr<CallEvents> events) = 0;
  // Ends the call with its response, which is filled in, or with an error, whose fields
  // get the paths of `scope`. Once. This object may be destroyed when it returns.
  virtual void Answer(const absl::Status& status, const RequestScope& scope) = 0;
};

// The end of a streaming call.
class CallEnd {
 public:
  virtual ~CallEnd() = default;
  // Once, unless WriteLast is called. Does not throw. The handler may be destroyed when
  // it returns.
  virtual void Finish(const absl::Status& status, const RequestScope& scope) = 0;
};

// Takes the messages of a streaming call to its caller. Methods are called one at a
// time, none after WriteLast or Finish. They do not throw.
template <class Response>
class ResponseWriter : public CallEnd {
 public:
  // OnWritten of the handler follows; `message` stays until then.
  virtual void Write(const Response& message) = 0;
  // Ends the call after `message`, which stays as long as the handler. The handler may
  // be destroyed when it returns.
  virtual void WriteLast(const Response& message, const absl::Status& status,
                         const RequestScope& scope) = 0;
};

// Brings the messages of a caller to the handler of a streaming call.
template <class Request>
class RequestReader {
 public:
  virtual ~RequestReader() = default;
  // OnRead of the handler follows once `message` is filled in, or when there is no
  // further one. One read at a time.
  virtual void Read(Request& message) = 0;
};

// DEADLINE_EXCEEDED once the caller's deadline has passed, else CANCELLED: the end of a
// call whose caller has gone. Without a text when memory has run out.
inline absl::Status EndOfCaller(const Caller& caller) {
  const auto deadline = caller.deadline();
  const bool late = deadline && *deadline <= std::chrono::steady_clock::now();
  const auto code =
      late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled;
  try {
    return absl::Status(code,
                        late ? "the deadline has passed" : "cancelled by the caller");
  } catch (const std::bad_alloc&) {
    return absl::Status(code, "");
  }
}

}  // namespace mnemon
