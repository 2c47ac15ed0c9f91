// SPDX-License-Identifier: MIT
// The connections of a gRPC server: a listener with limits replaces gRPC's own, threads
// of their own read them, each is watched, and the port is probed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/listen_address.h"
#include "server/rpc/port_probe.h"
#include "server/rpc/server.h"
#include "server/transport/connection_table.h"
#include "server/transport/connection_watch.h"
#include "server/transport/listener.h"
#include "server/transport/traffic_check.h"

namespace mnemon {

// Threads that read the connections of a gRPC server. A thread of gRPC goes on reading
// a connection while bytes are there, and each of the few that gRPC 1.51 starts (half
// the cores, at least two) also runs the callbacks of calls: peers that send without a
// pause on two connections would keep all others waiting. With these, the scheduler of
// the system divides time between connections.
//
// AddTo before gRPC's BuildAndStart, Start after it, Stop after the server's shutdown,
// each once by one thread. Run is safe for concurrent use between Start and Stop.
class PollThreads {
 public:
  ~PollThreads() { Stop(); }

  void AddTo(grpc::ServerBuilder& builder);
  // RESOURCE_EXHAUSTED when there are too few threads.
  absl::Status Start();
  // Has one of the threads call `task`, which may go on to read a connection and must
  // not throw.
  void Run(std::function<void()> task);
  // Tasks have run, or have been destroyed, when it returns.
  void Stop();

 private:
  void Poll();

  std::unique_ptr<grpc::ServerCompletionQueue> queue_;  // has an entry for each task
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

// The counts of streams that gRPC keeps for each connection (channelz), by peer, of all
// servers of this process. One thread.
class StreamCountReader {
 public:
  // nullopt when gRPC does not know a connection with this peer, as PeerText writes it.
  std::optional<StreamCounts> Read(const std::string& peer);

 private:
  // Learns of the sockets that were made since the last time.
  void FindNewSockets();

  std::unordered_map<std::string, int64_t> sockets_;  // channelz ids by peer
  int64_t next_socket_ = 0;                           // ids only grow
};

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
  // Takes no further connections. Those that are open have `left` to end.
  void StopAccepting(std::chrono::milliseconds left);
  // Ends the threads that read.
  void Stop() { poll_threads_.Stop(); }

  int port() const { return listener_->port(); }
  ConnectionTable& connections() { return table_; }
  std::string WhyUnreachable() const;

 private:
  explicit Transport(const RpcOptions& options);
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
