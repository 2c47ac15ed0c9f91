// SPDX-License-Identifier: MIT
// Session settings of a request: checks, defaults and limits.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "server/requests/engine_options.h"
#include "server/requests/request.h"
#include "server/sessions/session.h"
#include "server/sessions/session_updates.h"

namespace mnemon {

// INVALID_ARGUMENT names the member, also for an expire_time in the past. `vocab` is V.
absl::Status CheckSettings(const SessionSettings& settings, int64_t vocab,
                           const Clock& clock);

// When a session with these settings expires.
SessionUpdates::Settings::Expiration ExpirationOf(const SessionSettings& settings,
                                                  const EngineOptions& options);

// Applies settings to a session that no other thread knows. REQUIRES: checked settings.
void Apply(const SessionSettings& settings, const EngineOptions& options,
           Session& session);

// `settings`, with absent members from `defaults`.
SessionSettings WithDefaults(SessionSettings settings, const SessionSettings& defaults);

// A text for comparing repeated requests: equal for equal settings.
std::string TextOf(const SessionSettings& settings);

}  // namespace mnemon
