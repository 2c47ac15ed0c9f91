// SPDX-License-Identifier: MIT
// The ttl of a session for the one that its request names.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "server/engine/engine_options.h"

namespace mnemon {

// Absent: the server's default; a time that is too long is lowered.
inline std::optional<std::chrono::milliseconds> TtlFor(
    const std::optional<std::chrono::milliseconds>& ttl, const EngineOptions& options) {
  const auto& most = options.max_session_ttl;
  const auto wanted = ttl ? ttl : options.session_ttl;
  return wanted && most ? std::min(*wanted, *most) : wanted ? wanted : most;
}

}  // namespace mnemon
