// SPDX-License-Identifier: MIT
#include "client/connection.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"
#include "client/status.h"
#include "client/target.h"

namespace mnemon::client {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  // Detects a lost connection. The server accepts a ping per 10 s at most.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // Each client in a process has a connection of its own.
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

void Connection::Registration::Cancel() {
  cancelled_ = true;
  if (stream_ != nullptr) stream_->TryCancel();
}

void Connection::CancelCalls() {
  std::lock_guard lock(mutex_);
  for (Registration* call : calls_) call->Cancel();
}

absl::Status Connection::Reach(const Registration& call) {
  constexpr std::chrono::milliseconds kPatience(100);  // of who has cancelled
  const auto deadline = std::chrono::system_clock::now() + options_.connect_timeout;
  while (true) {
    if (call.cancelled()) return absl::CancelledError("cancelled");
    const grpc_connectivity_state state = channel_->GetState(true);
    if (state != GRPC_CHANNEL_IDLE && state != GRPC_CHANNEL_CONNECTING) {
      return absl::OkStatus();
    }
    const auto now = std::chrono::system_clock::now();
    if (!channel_->WaitForStateChange(state, std::min(now + kPatience, deadline)) &&
        now >= deadline) {
      return absl::UnavailableError(StrCat("no connection to ", options_.server,
                                           " within ", options_.connect_timeout.count(),
                                           " ms"));
    }
  }
}

absl::Status Connection::FromServer(const grpc::Status& status) const {
  absl::Status ours = FromGrpcStatus(status);
  if (!absl::IsUnavailable(ours) || GetErrorDetail(ours)) return ours;
  return absl::UnavailableError(
      StrCat("server ", options_.server, ": ", status.error_message()));
}

}  // namespace mnemon::client
