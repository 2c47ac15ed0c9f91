// SPDX-License-Identifier: MIT
// An address to listen on.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

// Binds the address and releases it. ListenFailed with the system's reason: in use, not
// permitted, not an address of this machine, unknown name.
absl::Status CheckBindable(const ListenAddress& address, std::string_view field);

// UNAVAILABLE, LISTEN_FAILED, naming the option `field`: "cannot listen on ADDRESS",
// and `why` if known.
absl::Status ListenFailed(const ListenAddress& address, std::string_view field,
                          std::string_view why = {});

}  // namespace mnemon
