// SPDX-License-Identifier: MIT
// Exports, imports and proofs of sessions, which read and write states.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/decoder_calls.h"
#include "server/engine/engine_parts.h"
#include "server/engine/expired_sessions.h"
#include "server/engine/named_sessions.h"
#include "server/requests/request.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Safe for concurrent use. Engine has the contract of each method.
class Transfers {
 public:
  // All four outlive it.
  Transfers(const EngineParts& parts, ExpiredSessions& expiry, NamedSessions& named,
            const DecoderCalls& calls)
      : parts_(parts), expiry_(expiry), named_(named), calls_(calls) {}

  // At most so many are under way at once.
  static constexpr int32_t kMost = 16;

  absl::Status Export(const std::string& id, OnAnswer<ExportedSession> on_done);
  absl::Status Import(ImportSessionRequest request, OnAnswer<SessionFacts> on_done);
  absl::Status Verify(const VerifySessionRequest& request,
                      OnAnswer<VerifiedSession> on_done);

 private:
  // Counts one transfer as long as it is held. TRANSFER_LIMIT.
  absl::StatusOr<std::shared_ptr<void>> Count();
  // `on_done`, which counts one transfer until nothing holds it. TRANSFER_LIMIT.
  template <class T>
  absl::StatusOr<OnAnswer<T>> Counted(OnAnswer<T> on_done);
  // Calls `next`, perhaps on another thread, once the state of a session at rest is
  // back from the store, or cannot be brought back.
  void WithState(const std::shared_ptr<Session>& session,
                 const std::function<void()>& next) const;

  const EngineParts& parts_;
  ExpiredSessions& expiry_;
  NamedSessions& named_;
  const DecoderCalls& calls_;
  // Shared, because what was exported may outlive the engine.
  const std::shared_ptr<std::atomic<int32_t>> under_way_ =
      std::make_shared<std::atomic<int32_t>>(0);
};

}  // namespace mnemon
