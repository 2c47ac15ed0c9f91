// SPDX-License-Identifier: MIT
// The connections of a gRPC server: gRPC's own listener is replaced by one with limits,
// every connection is watched, and the port is probed.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <grpcpp/server_builder.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/listen_address.h"
#include "server/rpc/port_probe.h"
#include "server/rpc/server.h"
#include "server/transport/connection_table.h"
#include "server/transport/connection_watch.h"
#include "server/transport/listener.h"

namespace mnemon {

// Open, AddTo, then gRPC's BuildAndStart, Start, StopAccepting, gRPC's shutdown, and
// the destructor, in this order by one thread; the rest is safe for concurrent use.
class Transport {
 public:
  // Listens, without accepting. Errors as Listener::Open.
  static absl::StatusOr<std::unique_ptr<Transport>> Open(const ListenAddress& address,
                                                         const RpcOptions& options);

  // Makes the server that is built take the connections of this transport.
  void AddTo(grpc::ServerBuilder& builder);
  // Accepts from now on. RESOURCE_EXHAUSTED when there are too few threads.
  absl::Status Start();
  // No connection is handed over any more. Those that are open have `left` to end.
  void StopAccepting(std::chrono::milliseconds left);

  int port() const { return listener_->port(); }
  ConnectionTable& connections() { return table_; }
  std::string WhyUnreachable() const;

 private:
  explicit Transport(const RpcOptions& options);

  const RpcOptions options_;
  ConnectionTable table_;
  ConnectionWatch watch_;
  // Used by the listener's thread.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<PortProbe> probe_;
};

}  // namespace mnemon
