// SPDX-License-Identifier: MIT
#include "server/sessions/session_settings.h"

#include <algorithm>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/requests/request_check.h"
#include "server/sessions/session_record.h"

namespace mnemon {

using std::chrono::milliseconds;

absl::Status CheckSettings(const SessionSettings& settings, int64_t vocab,
                           const Clock& clock) {
  MNEMON_RETURN_IF_ERROR(CheckTtl(settings.ttl));
  if (settings.ttl && settings.expire_time) {
    return InvalidField("expire_time", "a session has a ttl or an expire_time");
  }
  if (settings.expire_time) {
    const auto left = std::chrono::duration_cast<milliseconds>(*settings.expire_time -
                                                               clock.WallNow());
    if (!CheckTtl(left).ok()) {
      return InvalidField("expire_time",
                          "expire_time must lie ahead, by at most 100 years");
    }
  }
  if (settings.sampling) {
    MNEMON_RETURN_IF_ERROR(ValidateSampling(settings.sampling->values, vocab));
  }
  return absl::OkStatus();
}

SessionUpdates::Settings::Expiration ExpirationOf(const SessionSettings& settings,
                                                  const EngineOptions& options) {
  const auto& most = options.max_session_ttl;
  const Clock& clock = *options.clock;
  if (settings.expire_time) {
    auto left = *settings.expire_time - clock.WallNow();
    if (most) left = std::min<decltype(left)>(left, *most);
    return {.ttl = std::nullopt, .expires_at = clock.Now() + left};
  }
  const auto wanted = settings.ttl ? settings.ttl : options.session_ttl;
  return {.ttl = wanted && most ? std::min(*wanted, *most)
                 : wanted       ? wanted
                                : most,
          .expires_at = std::nullopt};
}

void Apply(const SessionSettings& settings, const EngineOptions& options,
           Session& session) {
  const auto expiration = ExpirationOf(settings, options);
  session.entry.ttl = expiration.ttl;
  session.entry.expires_at = expiration.expires_at;
  session.entry.sampling =
      settings.sampling ? std::make_shared<const SessionSampling>(*settings.sampling)
                        : nullptr;
  session.entry.paused = settings.paused.value_or(false);
}

SessionSettings WithDefaults(SessionSettings settings,
                             const SessionSettings& defaults) {
  if (!settings.ttl && !settings.expire_time) settings.ttl = defaults.ttl;
  if (!settings.sampling) settings.sampling = defaults.sampling;
  if (!settings.durability) settings.durability = defaults.durability;
  return settings;
}

std::string TextOf(const SessionSettings& settings) {
  return StrCat(
      FormatSessionRecord({.ttl = settings.ttl, .sampling = settings.sampling}), " ",
      settings.expire_time ? settings.expire_time->time_since_epoch().count() : 0, " ",
      settings.paused.value_or(false),
      settings.durability ? StrCat(" ", static_cast<int>(*settings.durability)) : "");
}

}  // namespace mnemon
