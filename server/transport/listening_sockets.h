// SPDX-License-Identifier: MIT
// The listening sockets of one address: a name may stand for several.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/files/descriptor.h"
#include "base/listen_address.h"

namespace mnemon {

struct ListeningSockets {
  // The port of all: the one asked for, or a free one for port 0.
  int port = 0;
  // Non-blocking, close-on-exec; at least one.
  std::vector<Descriptor> sockets;
};

// Listens on every address that the host stands for; on those of them that this machine
// has, if some are not. Another process's port is never shared. ListenFailed, naming
// the option `field`, when one is in use or none can be bound.
absl::StatusOr<ListeningSockets> Listen(const ListenAddress& address,
                                        std::string_view field);

}  // namespace mnemon
