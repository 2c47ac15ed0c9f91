// SPDX-License-Identifier: MIT
#include "client/commands/ttl_flag.h"

namespace mnemon::client {

Flag AddTtlFlag(Command command, std::optional<int32_t>& seconds,
                const std::string& defaults) {
  return command
      .Add("--ttl", &seconds,
           "Seconds without use after which the server deletes the session; 0 = the "
           "server's default")
      .Between(0, INT32_MAX, "seconds")
      .Default(defaults);
}

std::optional<std::chrono::milliseconds> TtlOfFlag(
    std::optional<int32_t> seconds,
    std::optional<std::chrono::milliseconds> otherwise) {
  if (!seconds) return otherwise;
  if (*seconds == 0) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

}  // namespace mnemon::client
