// SPDX-License-Identifier: MIT
#include "client/connection.h"

#include <algorithm>
#include <utility>

#include <grpc/grpc.h>

#include "base/error.h"
#include "base/strings.h"
#include "client/status.h"
#include "client/target.h"

namespace mnemon::client {
namespace {

constexpr std::chrono::milliseconds kPatience(100);  // after a cancellation

// gRPC ends its threads when its last object is gone, and waits up to ten seconds for
// one that may be polling a socket. An object that is never freed avoids this: the
// process ends the threads.
void KeepLibrary() {
  static const bool kept = (grpc_init(), true);
  static_cast<void>(kept);
}

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  KeepLibrary();
  grpc::ChannelArguments arguments;
  // Detects a lost connection. The server accepts a ping per 10 s at most.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // Each client of a process has its own connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(TargetOf(options.server),
                                   grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

Connection::Connection(const ClientOptions& options)
    : options_(options), channel_(MakeChannel(options)) {}

Connection::Registration::Registration(Connection& connection,
                                       grpc::ClientContext* stream)
    : connection_(connection), stream_(stream) {
  std::lock_guard lock(connection_.mutex_);
  connection_.calls_.insert(this);
}

Connection::Registration::~Registration() {
  std::lock_guard lock(connection_.mutex_);
  connection_.calls_.erase(this);
}

void Connection::Registration::SetStream(grpc::ClientContext* stream) {
  std::lock_guard lock(connection_.mutex_);
  stream_ = stream;
  if (stream_ != nullptr && cancelled_) stream_->TryCancel();
}

void Connection::Registration::CancelLocked() {
  cancelled_ = true;
  if (stream_ != nullptr) stream_->TryCancel();
}

void Connection::CancelCalls() {
  std::lock_guard lock(mutex_);
  for (Registration* call : calls_) call->CancelLocked();
}

absl::Status Connection::Reach(Registration& call,
                               std::chrono::system_clock::time_point deadline) {
  const auto limit = std::chrono::system_clock::now() + options_.connect_timeout;
  while (true) {
    if (call.cancelled()) return absl::CancelledError("cancelled");
    const grpc_connectivity_state state = channel_->GetState(true);
    call.connected_ = state == GRPC_CHANNEL_READY;
    if (call.connected_) reached_ = true;
    const auto now = std::chrono::system_clock::now();
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE && reached_) {
      // As in Pause: otherwise callers that retry themselves would never see it come
      // back.
      if (channel_->WaitForStateChange(state, std::min(now + kPatience, deadline))) {
        continue;
      }
    }
    if (state != GRPC_CHANNEL_IDLE && state != GRPC_CHANNEL_CONNECTING) {
      return absl::OkStatus();
    }
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          StrCat("no connection to ", options_.server, " before the deadline"));
    }
    if (!channel_->WaitForStateChange(state,
                                      std::min({now + kPatience, limit, deadline})) &&
        now >= limit) {
      return absl::UnavailableError(StrCat("no connection to ", options_.server,
                                           " within ", options_.connect_timeout.count(),
                                           " ms"));
    }
  }
}

absl::Status Connection::Await(Registration& call, Retries& retries,
                               const absl::Status& lost,
                               std::chrono::system_clock::time_point deadline) {
  if (!reached_) return lost;
  const auto now = std::chrono::steady_clock::now();
  const std::optional<ErrorDetail> detail = GetErrorDetail(lost);
  const auto due = retries.Next(now, detail ? detail->retry_after : std::nullopt);
  if (!due) return lost;
  if (deadline - std::chrono::system_clock::now() <= *due - now) {
    return absl::DeadlineExceededError(
        StrCat("the deadline comes before the next try: ", lost.message()));
  }
  if (options_.retry.on_wait) options_.retry.on_wait(lost);
  return Pause(call, retries, *due);
}

// gRPC retries a connection only while a thread waits on the channel, except for a
// check every 5 s: a sleeping thread would not notice the server's return.
absl::Status Connection::Pause(const Registration& call, const Retries& retries,
                               Retries::TimePoint due) {
  bool away = !call.connected_;
  while (!call.cancelled()) {
    const grpc_connectivity_state state = channel_->GetState(true);
    const auto now = std::chrono::steady_clock::now();
    if (state != GRPC_CHANNEL_READY) {
      away = true;
    } else if (std::exchange(away, false)) {
      due = retries.Back(now);
    }
    if (now >= due) return absl::OkStatus();
    channel_->WaitForStateChange(
        state, std::chrono::system_clock::now() +
                   std::min<std::chrono::nanoseconds>(due - now, kPatience));
  }
  return absl::CancelledError("cancelled");
}

absl::Status Connection::Try(Registration& registration, Repeat repeat,
                             const std::function<absl::Status()>& call) {
  Retries retries(options_.retry);
  while (true) {
    absl::Status status = call();
    if (repeat == Repeat::kNo || !absl::IsUnavailable(status)) return status;
    MNEMON_RETURN_IF_ERROR(Await(registration, retries, status));
  }
}

absl::Status Connection::FromServer(const grpc::Status& status) const {
  absl::Status ours = FromGrpcStatus(status);
  if (!absl::IsUnavailable(ours) || GetErrorDetail(ours)) return ours;
  return absl::UnavailableError(
      StrCat("server ", options_.server, ": ", status.error_message()));
}

}  // namespace mnemon::client
