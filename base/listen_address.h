// SPDX-License-Identifier: MIT
// An address to listen on, and its sockets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"

namespace mnemon {

struct ListenAddress {
  std::string host;  // name or address, without brackets
  int port = 0;

  // "host:port", with brackets around an address with colons.
  std::string Text() const;
};

// INVALID_ARGUMENT, naming the option `field`, unless `text` is host:port or
// [address]:port.
absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text,
                                                 std::string_view field);

struct ListeningSockets {
  int port = 0;                     // of all; a free one if port 0 was asked for
  std::vector<Descriptor> sockets;  // at least one; non-blocking, close-on-exec
};

// Listens on every address of the host that this machine has, and never shares the port
// of another process. ListenFailed, naming the option `field`, with the system's reason
// when a port is in use or none can be bound.
absl::StatusOr<ListeningSockets> Listen(const ListenAddress& address,
                                        std::string_view field);

// UNAVAILABLE, LISTEN_FAILED, naming the option `field`: "cannot listen on ADDRESS",
// and `why` if known.
absl::Status ListenFailed(const ListenAddress& address, std::string_view field,
                          std::string_view why = {});

}  // namespace mnemon
