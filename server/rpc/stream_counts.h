// SPDX-License-Identifier: MIT
// The counts of streams that gRPC keeps for each connection (channelz), by peer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "server/transport/traffic_check.h"

namespace mnemon {

// Of all servers of this process. One thread.
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

}  // namespace mnemon
