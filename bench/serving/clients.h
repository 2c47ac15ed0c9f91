// SPDX-License-Identifier: MIT
// Clients of a server on loopback that make each call once and wait for the answer
// until only a hang explains the delay.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "client/client.h"

namespace mnemon::serving {

// A client with its own connection.
std::unique_ptr<client::Client> ConnectClient(int port);

// `count` clients; calls are distributed round-robin. Safe for concurrent use.
class Clients {
 public:
  Clients(int port, int count);
  client::Client& at(size_t i) { return *all_[i % all_.size()]; }

 private:
  std::vector<std::unique_ptr<client::Client>> all_;
};

}  // namespace mnemon::serving
