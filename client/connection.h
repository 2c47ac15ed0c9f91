// SPDX-License-Identifier: MIT
// A client's connection to its server.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "client/client.h"
#include "client/retries.h"

namespace mnemon::client {

// Connection handling of every call: reaching the server in time, errors that name it,
// and cancellation from another thread. Safe for concurrent use.
class Connection {
 public:
  explicit Connection(const ClientOptions& options);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  std::chrono::milliseconds call_timeout() const { return options_.call_timeout; }
  const RetryOptions& retry() const { return options_.retry; }

  // Registers a call for CancelCalls, starting before the server is reached.
  class Registration {
   public:
    // `stream` may be null: such a call is not cancelled once the server is reached.
    explicit Registration(Connection& connection,
                          grpc::ClientContext* stream = nullptr);
    ~Registration();
    // Sets the stream of the next try; null at its end.
    void SetStream(grpc::ClientContext* stream);
    bool cancelled() const { return cancelled_; }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    friend class Connection;
    void CancelLocked();

    Connection& connection_;
    grpc::ClientContext* stream_;  // guarded by the connection's mutex_
    std::atomic<bool> cancelled_ = false;
    bool connected_ = false;  // at the last try; used by the call's thread
  };

  void CancelCalls();
  // Waits for the connection, but not for one that has failed: the call returns the
  // reason. DEADLINE_EXCEEDED at `deadline`.
  absl::Status Reach(Registration& call,
                     std::chrono::system_clock::time_point deadline =
                         std::chrono::system_clock::time_point::max());
  // Waits before the retry of a call that ended with `lost`: as long as `retries` says,
  // but at most until a lost connection is restored. Returns the error of the call if
  // there is no retry: `lost` for a server that was never reached or if no tries are
  // left, else CANCELLED or DEADLINE_EXCEEDED.
  absl::Status Await(Registration& call, Retries& retries, const absl::Status& lost,
                     std::chrono::system_clock::time_point deadline =
                         std::chrono::system_clock::time_point::max());
  // Adds the server's address to the error of a failed connection.
  absl::Status FromServer(const grpc::Status& status) const;

  enum class Repeat {
    kNo,
    kYes,  // while it ends with UNAVAILABLE; for idempotent calls
  };
  // A short call; each try is limited by call_timeout() and `more`.
  template <class Stub, class Request, class Response>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                 Response*),
                    const Request& request, Response& response,
                    Repeat repeat = Repeat::kNo, std::chrono::milliseconds more = {}) {
    Registration registration(*this);
    return Try(registration, repeat, [&] {
      MNEMON_RETURN_IF_ERROR(Reach(registration));
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + options_.call_timeout +
                           more);
      return FromServer((stub.*method)(&context, request, &response));
    });
  }
  // Makes `call`, with retries according to `repeat`.
  absl::Status Try(Registration& registration, Repeat repeat,
                   const std::function<absl::Status()>& call);

 private:
  absl::Status Pause(const Registration& call, const Retries& retries,
                     Retries::TimePoint due);

  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::atomic<bool> reached_ = false;  // the server was reached at any time
  std::mutex mutex_;
  std::set<Registration*> calls_;  // guarded by mutex_
};

}  // namespace mnemon::client
