// SPDX-License-Identifier: MIT
// The settings of a session from the request that names them: checked, with defaults
// and limits.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "server/engine/engine_options.h"
#include "server/engine/request.h"
#include "server/engine/session.h"
#include "server/engine/session_directory.h"

namespace mnemon {

// INVALID_ARGUMENT, whose field is the member's name; `vocab`: V. An expire_time that
// has passed is one of them.
absl::Status CheckSettings(const SessionSettings& settings, int64_t vocab,
                           const Clock& clock);

// When a session with these settings expires.
SessionDirectory::Settings::Expiration ExpirationOf(const SessionSettings& settings,
                                                    const EngineOptions& options);

// Sets up a session that no other thread knows. REQUIRES: checked settings.
void Apply(const SessionSettings& settings, const EngineOptions& options,
           Session& session);

// `settings` with what they leave open from `defaults`.
SessionSettings WithDefaults(SessionSettings settings, const SessionSettings& defaults);

// Equal for equal settings: what a repeated request is compared by.
std::string TextOf(const SessionSettings& settings);

}  // namespace mnemon
