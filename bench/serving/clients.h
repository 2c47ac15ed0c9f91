// SPDX-License-Identifier: MIT
// Clients of a server on loopback that make each call once and wait for its answer as
// long as only what hangs takes.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "client/client.h"

namespace mnemon::serving {

// With a connection of its own.
std::unique_ptr<client::Client> ConnectClient(int port);

// `count` clients; calls are spread over them by turns. Safe for concurrent use.
class Clients {
 public:
  Clients(int port, int count);
  client::Client& at(size_t i) { return *all_[i % all_.size()]; }

 private:
  std::vector<std::unique_ptr<client::Client>> all_;
};

}  // namespace mnemon::serving
