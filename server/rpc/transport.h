// SPDX-License-Identifier: MIT
// The connections of a gRPC server: gRPC's own listener is replaced by one with limits,
// threads of their own read them, every connection is watched, and the port is probed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <grpcpp/server_builder.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/listen_address.h"
#include "server/rpc/poll_threads.h"
#include "server/rpc/port_probe.h"
#include "server/rpc/server.h"
#include "server/transport/connection_table.h"
#include "server/transport/connection_watch.h"
#include "server/transport/listener.h"

namespace mnemon {

// Open, AddTo, then gRPC's BuildAndStart, Start, StopAccepting, gRPC's shutdown, Stop,
// and the destructor, in this order by one thread; the rest is safe for concurrent use.
class Transport {
 public:
  // Listens, without accepting. Errors as Listener::Open.
  static absl::StatusOr<std::unique_ptr<Transport>> Open(const ListenAddress& address,
                                                         const RpcOptions& options);

  // Makes the server that is built take the connections of this transport.
  void AddTo(grpc::ServerBuilder& builder);
  // Accepts from now on. RESOURCE_EXHAUSTED when there are too few threads or
  // descriptors.
  absl::Status Start();
  // No connection is handed over any more. Those that are open have `left` to end.
  void StopAccepting(std::chrono::milliseconds left);
  // Ends the threads that read.
  void Stop() { poll_threads_.Stop(); }

  int port() const { return listener_->port(); }
  ConnectionTable& connections() { return table_; }
  std::string WhyUnreachable() const;

 private:
  explicit Transport(const RpcOptions& options);
  // Not on a listener's thread: gRPC may go on to read the connection.
  void HandOverLater(Descriptor accepted);
  void HandOver(Descriptor accepted);

  const RpcOptions options_;
  ConnectionTable table_;
  ConnectionWatch watch_;
  PollThreads poll_threads_;
  // Used by their tasks.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::mutex mutex_;
  std::condition_variable handed_over_;
  bool accepting_ = true;  // guarded by mutex_
  int handing_over_ = 0;   // tasks that do now; guarded by mutex_
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<PortProbe> probe_;
};

}  // namespace mnemon
