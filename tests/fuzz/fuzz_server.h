// SPDX-License-Identifier: MIT
// A server over a toy engine on loopback, as called by fuzz targets, with one session,
// "anna".
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "model/text/tokenizer.h"
#include "server/engine/engine.h"
#include "server/rpc/server.h"
#include "server/service/service.h"
#include "tests/fakes/toy_decoder.h"

namespace mnemon {

// Used by one thread. Must be leaked: gRPC's threads outlive the objects of a process
// that exits.
class FuzzServer {
 public:
  FuzzServer();

  int port() const { return server_->port(); }
  // Recreates the session if it is gone, and ends the calls of idle callers.
  void Tidy();
  // Ends the process unless a new client is served, and all calls except those of open
  // connections end soon.
  void CheckAlive();
  std::shared_ptr<grpc::Channel> NewChannel() const;

 private:
  const std::unique_ptr<Tokenizer> tokenizer_;
  ToyDecoder decoder_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace mnemon
