// SPDX-License-Identifier: MIT
// The gRPC server of the service layer: mnemon.v1 and grpc.health.v1.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/service/service.h"
#include "server/transport/connection_table.h"

namespace mnemon {

// Whose calls of Admin are taken. kNone: the server does not have the service.
enum class AdminPeers { kNone, kLoopback, kAll };

struct RpcOptions {
  std::string listen = "127.0.0.1:50051";  // port 0: any free port
  int32_t max_concurrent_streams = 1024;   // per connection
  int64_t max_message_bytes = 4 << 20;     // received
  // Connections at once, of one address half of them; 0: as many as there are
  // descriptors for, at most 32768.
  int32_t max_connections = 0;
  // Received bytes of calls that have not ended, of one connection a quarter; beyond
  // it, the connection that holds most of them is shut down.
  int64_t max_bytes_in_flight = int64_t{512} << 20;
  bool reflection = true;  // grpc.reflection.v1alpha
  AdminPeers admin = AdminPeers::kLoopback;
  std::chrono::milliseconds grace{30000};  // of a drain that does not say how long
  // Why the process takes no work, whatever its models do; empty: it does. May be null.
  std::function<std::string()> unready;
  // Called, on a thread of the server, when its own port has not answered for a minute
  // though there were descriptors; need not return. May be null.
  std::function<void(const std::string& why)> on_unreachable;
};

// Safe for concurrent use, but for the destructor.
class RpcServer {
 public:
  // Starts listening. `service` outlives the server. UNAVAILABLE when the address
  // cannot be bound, INVALID_ARGUMENT when it cannot be parsed; both name it.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(Service& service,
                                                          const RpcOptions& options);
  // As Shutdown without a grace.
  virtual ~RpcServer() = default;

  virtual int port() const = 0;
  virtual ConnectionCounts connections() const = 0;
  // Empty, or why a probe of the port by the server itself fails: it is not alive.
  virtual std::string WhyUnreachable() const = 0;
  // Empty, or why new connections are refused: the server is alive, but not ready.
  virtual std::string WhyNotAccepting() const = 0;
  // Brings the statuses of grpc.health.v1 up to date with Engine::Stats and
  // RpcOptions::unready. The service "mnemon.v1.Generation/NAME" is SERVING while the
  // model NAME is ready, and "mnemon.v1.Generation" while any model is; none is while
  // the port cannot be reached. The empty service, liveness, is always SERVING.
  virtual void UpdateReadiness() = 0;
  // Begins a drain of the service (drain.h), or shortens the grace of one that goes on,
  // waits until it is done, then closes the port.
  virtual void Shutdown(std::chrono::milliseconds grace) = 0;
};

// "gRPC 1.51.1"
std::string RpcLibraryVersion();
// Routes the log output of protobuf and gRPC to our log, in bounded volume: hostile
// input makes protobuf write a line per message. Process-wide; idempotent.
void InstallLibraryLogs();

}  // namespace mnemon
