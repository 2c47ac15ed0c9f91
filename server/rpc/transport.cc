// SPDX-License-Identifier: MIT
#include "server/rpc/transport.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "server/rpc/stream_counts.h"

namespace mnemon {
namespace {

constexpr int64_t kMostConnections = 32768;
// A client may open as many calls again while the cancelled ones before them end.
constexpr int64_t kCallsPerStream = 2;
// Calls at once in all, as a multiple of those of one connection.
constexpr int64_t kConnectionsFull = 8;
constexpr int64_t kShareOfConnection = 4;
// For a connection to end once it is shut down.
constexpr std::chrono::milliseconds kEnding{1000};

int64_t ConnectionLimit(const RpcOptions& options) {
  if (options.max_connections > 0) return options.max_connections;
  return std::min(kMostConnections,
                  ConnectionsFor(DescriptorLimit(), OpenDescriptors()));
}

int64_t CallsPerConnection(const RpcOptions& options) {
  return kCallsPerStream * options.max_concurrent_streams;
}

TrafficLimits Limits(const RpcOptions& options) {
  return {.message_bytes = options.max_message_bytes,
          .streams = CallsPerConnection(options),
          .connection_bytes = std::max(options.max_bytes_in_flight / kShareOfConnection,
                                       2 * options.max_message_bytes)};
}

ConnectionWatch::Options WatchOptions(const RpcOptions& options) {
  return {.limits = Limits(options),
          .most_in_flight = options.max_bytes_in_flight,
          .most_calls = kConnectionsFull * CallsPerConnection(options)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> Transport::Open(const ListenAddress& address,
                                                           const RpcOptions& options) {
  std::unique_ptr<Transport> transport(new Transport(options));
  MNEMON_ASSIGN_OR_RETURN(
      transport->listener_,
      Listener::Open(address, transport->table_,
                     {.traffic = Limits(options),
                      .calls_per_connection = CallsPerConnection(options)}));
  return transport;
}

Transport::Transport(const RpcOptions& options)
    : options_(options),
      table_(ConnectionLimit(options), (ConnectionLimit(options) + 1) / 2),
      watch_(table_, WatchOptions(options),
             [reader = std::make_shared<StreamCountReader>()](const std::string& peer) {
               return reader->Read(peer);
             }) {}

void Transport::AddTo(grpc::ServerBuilder& builder) {
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Type::FROM_FD, grpc::InsecureServerCredentials());
  poll_threads_.AddTo(builder);
}

absl::Status Transport::Start() {
  MNEMON_RETURN_IF_ERROR(poll_threads_.Start());
  MNEMON_RETURN_IF_ERROR(watch_.Start());
  MNEMON_RETURN_IF_ERROR(listener_->Start(
      [this](Descriptor accepted) { HandOverLater(std::move(accepted)); }));
  MNEMON_ASSIGN_OR_RETURN(probe_,
                          PortProbe::Start(listener_->own_address(), table_,
                                           {.reopen = [this] { listener_->Reopen(); },
                                            .give_up = options_.on_unreachable}));
  return absl::OkStatus();
}

void Transport::HandOverLater(Descriptor accepted) {
  auto owner = std::make_shared<Descriptor>(std::move(accepted));
  poll_threads_.Run([this, owner] { HandOver(std::move(*owner)); });
}

void Transport::HandOver(Descriptor accepted) {
  {
    std::lock_guard lock(mutex_);
    // The watch shuts it down with all others.
    if (!accepting_) return;
    ++handing_over_;
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = accepted.Release();
  acceptor_->HandleNewConnection(&connection);
  std::lock_guard lock(mutex_);
  if (--handing_over_ == 0) handed_over_.notify_all();
}

void Transport::StopAccepting(std::chrono::milliseconds left) {
  if (probe_ != nullptr) probe_->Stop();
  listener_->StopAccepting();
  watch_.ShutDownAllAt(std::chrono::steady_clock::now() + left);
  std::unique_lock lock(mutex_);
  accepting_ = false;
  // One that is still read is shut down with the others.
  handed_over_.wait_for(lock, left + kEnding, [this] { return handing_over_ == 0; });
}

std::string Transport::WhyUnreachable() const {
  return probe_ == nullptr ? "" : probe_->WhyUnreachable();
}

}  // namespace mnemon
