// SPDX-License-Identifier: MIT
// A gRPC connection to a server on loopback, with the stubs of every service.
#pragma once

#include <memory>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "grpc/health/v1/health.grpc.pb.h"
#include "mnemon/v1/generation.grpc.pb.h"
#include "mnemon/v1/sessions.grpc.pb.h"

namespace mnemon::serving {

struct ConnectionOptions {
  // gRPC's standard retry policy: five attempts after UNAVAILABLE and
  // RESOURCE_EXHAUSTED, with exponential backoff.
  bool retries = false;
  // Flow-control window of a stream as small as the library allows, so that a server
  // soon notices a reader that stopped.
  bool small_window = false;
};

// A separate connection, even to the same server. Safe for concurrent use.
struct Connection {
  Connection(int port, const ConnectionOptions& options);

  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::Generation::Stub> generation;
  const std::unique_ptr<v1::Sessions::Stub> sessions;
  const std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

// `count` connections; calls are distributed round-robin.
class Connections {
 public:
  Connections(int port, int count, const ConnectionOptions& options = {});
  Connection& at(size_t i) { return *all_[i % all_.size()]; }

 private:
  std::vector<std::unique_ptr<Connection>> all_;
};

}  // namespace mnemon::serving
