// SPDX-License-Identifier: MIT
// An observer of the engine that ignores all events: tests override those that they
// need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "server/requests/observer.h"

namespace mnemon {

class SilentObserver : public EngineObserver {
 public:
  void OnStep(size_t, int64_t, Seconds) override {}
  void OnRefused(std::optional<size_t>, const absl::Status&) override {}
  void OnAdmitted(size_t, const StartFacts&, Seconds) override {}
  void OnFirstToken(size_t, Seconds, Seconds) override {}
  void OnNextToken(size_t, Seconds) override {}
  void OnStall(size_t, Seconds) override {}
  void OnEnded(size_t, const RequestEnd&) override {}
  void OnResumed(size_t) override {}
  void OnSessionEvent(SessionEvent) override {}
  void OnRestored(SessionTier, Seconds) override {}
};

}  // namespace mnemon
