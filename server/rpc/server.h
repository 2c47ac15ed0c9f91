// SPDX-License-Identifier: MIT
// The gRPC server of an engine: mnemon.v1 and grpc.health.v1. One small reactor per
// RPC.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/attended_clock.h"
#include "server/engine/engine.h"
#include "server/rpc/rpc_record.h"
#include "server/transport/connection_table.h"

namespace grpc {
class Channel;
}

namespace mnemon {

// Whose calls of Admin are taken. Nobody's: the server does not have the service.
enum class AdminPeers { kNone, kLoopback, kAll };

struct RpcOptions {
  std::string listen = "127.0.0.1:50051";  // port 0: any free port
  int32_t max_concurrent_streams = 1024;   // per connection
  int64_t max_message_bytes = 4 << 20;     // received
  // Connections at once; 0: as many as there are descriptors for, at most 32768. Of one
  // address, half of them.
  int32_t max_connections = 0;
  // Received bytes of calls that have not ended, over all connections; when there are
  // more, the connection that holds most of them is shut down. Of one connection, a
  // quarter.
  int64_t max_bytes_in_flight = int64_t{512} << 20;
  std::shared_ptr<CallObserver> observer;  // of every call; may be null
  // Calls of Generation and CreateSession taken per second, over all callers; more are
  // refused with RESOURCE_EXHAUSTED and the time to wait. 0 = any number.
  double max_calls_per_second = 0;
  bool reflection = true;      // grpc.reflection.v1alpha
  bool local_channel = false;  // for RpcServer::LocalChannel
  AdminPeers admin = AdminPeers::kLoopback;
  // That calls have to finish in a drain which does not say how long.
  std::chrono::milliseconds grace{30000};
  // Why the process takes no work, whatever its models do; empty: it does. May be null.
  std::function<std::string()> unready;
  // How long a call may wait for its caller to send the first message of Score, or to
  // read what is sent.
  std::chrono::milliseconds idle_timeout{30000};
  // The time of such waits, which EndIdleCalls keeps going: it outlives the server.
  // Null: a clock of the server's own.
  AttendedClock* attended = nullptr;
  // Called, on a thread of the server, when its own port has not answered for a minute
  // though there were descriptors; may not return. Empty: nothing is done then.
  std::function<void(const std::string& why)> on_unreachable;
};

// Safe for concurrent use, but for the destructor.
class RpcServer {
 public:
  // Starts listening. `engine` outlives the server. UNAVAILABLE when the address cannot
  // be bound, INVALID_ARGUMENT when it cannot be parsed; both name it.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(Engine& engine,
                                                          const RpcOptions& options);
  // Ends open calls at once, as Shutdown without a grace: the engine, too, takes no
  // more work.
  virtual ~RpcServer() = default;

  virtual int port() const = 0;
  // A connection for calls within the process, by a socket in the machine's own
  // namespace: no limit of connections holds for it. Its calls fail after Shutdown.
  // REQUIRES: RpcOptions::local_channel.
  virtual std::shared_ptr<grpc::Channel> LocalChannel() = 0;
  virtual ConnectionCounts connections() const = 0;
  // Empty, or why clients cannot reach the port, as a probe of it by the server itself
  // has found: the server then is not alive.
  virtual std::string WhyUnreachable() const = 0;
  // Empty, or why new connections are refused: the server is alive, but not ready.
  virtual std::string WhyNotAccepting() const = 0;
  // Brings the statuses of grpc.health.v1 up to date with Engine::Stats and
  // RpcOptions::unready. The service
  // "mnemon.v1.Generation/NAME" is SERVING while the model NAME is ready, and
  // "mnemon.v1.Generation" while any model is; none is while the port cannot be
  // reached. The empty service, liveness, is always SERVING: whom it answers has
  // reached the port. Calls that run go on.
  virtual void UpdateReadiness() = 0;
  // Ends the calls whose callers have not read, or not opened their Score call, for
  // idle_timeout, with ABORTED, CALLER_IDLE. To be called every kIdlePeriod, or more
  // often: where it is called later, only so much of the time before counts, since the
  // server may not have run.
  static constexpr std::chrono::milliseconds kIdlePeriod{250};
  virtual void EndIdleCalls() = 0;
  // Calls that have not ended.
  virtual size_t open_calls() const = 0;
  // Begins a drain (drain.h), or shortens the grace of one that goes on. Does not wait.
  virtual void BeginDrain(std::chrono::milliseconds grace) = 0;
  // The same, waits until it is done, then closes the port.
  virtual void Shutdown(std::chrono::milliseconds grace) = 0;
};

// "gRPC 1.51.1"
std::string RpcLibraryVersion();

}  // namespace mnemon
