// SPDX-License-Identifier: MIT
// A client's connection to its server.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "client/client.h"

namespace mnemon::client {

// What every call needs of its connection: reaching the server in time, errors that
// name it, and an end from another thread. Safe for concurrent use.
class Connection {
 public:
  explicit Connection(const ClientOptions& options);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  std::chrono::milliseconds call_timeout() const { return options_.call_timeout; }

  // Makes a call known to CancelCalls, from before the server is reached.
  class Registration {
   public:
    // `stream` may be null: once the server is reached, such a call is not cancelled.
    Registration(Connection& connection, grpc::ClientContext* stream);
    ~Registration();
    void Cancel();
    bool cancelled() const { return cancelled_; }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    Connection& connection_;
    grpc::ClientContext* const stream_;
    std::atomic<bool> cancelled_ = false;
  };

  void CancelCalls();
  // Waits for the connection, but not for one that has failed: the call returns
  // the reason.
  absl::Status Reach(const Registration& call);
  // Adds the address of the server to the error of a failed connection.
  absl::Status FromServer(const grpc::Status& status) const;

  // A short call, bounded by call_timeout() and `more`.
  template <class Stub, class Request, class Response>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                 Response*),
                    const Request& request, Response& response,
                    std::chrono::milliseconds more = {}) {
    MNEMON_RETURN_IF_ERROR(Reach(Registration(*this, nullptr)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + options_.call_timeout +
                         more);
    return FromServer((stub.*method)(&context, request, &response));
  }

 private:
  const ClientOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::mutex mutex_;
  std::set<Registration*> calls_;  // guarded by mutex_
};

}  // namespace mnemon::client
