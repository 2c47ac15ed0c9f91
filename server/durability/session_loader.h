// SPDX-License-Identifier: MIT
// Sessions in use get back what they have in the store: histories, for which memory is
// made where there is none, and states.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/durability/history_sweeps.h"
#include "server/durability/store_context.h"
#include "server/sessions/session.h"

namespace mnemon {

// Safe for concurrent use.
class SessionLoader {
 public:
  // Both outlive it, and what it restores.
  SessionLoader(StoreContext& stores, HistorySweeps& sweeps)
      : stores_(stores), context_(stores.engine), sweeps_(sweeps) {}

  // Brings the history of a session into memory, if it is not there: on the calling
  // thread, which reads the store. It stays there, with those of checkpoints that were
  // loaded, as long as a copy of the pointer exists. `patient`: waits for memory, as
  // HistorySweeps::MakeRoom. DATA_LOSS, SESSION_DAMAGED; NOT_FOUND, when the session
  // was deleted meanwhile; MEMORY_LIMIT; the store's.
  absl::StatusOr<std::shared_ptr<Session>> Use(const std::shared_ptr<Session>& session,
                                               bool patient = true);
  // With the histories of its checkpoints, as far as they can be read.
  absl::StatusOr<std::shared_ptr<Session>> UseWithCheckpoints(
      const std::shared_ptr<Session>& session);
  // The history of a checkpoint, likewise. DATA_LOSS, CHECKPOINT_DAMAGED. REQUIRES: the
  // owner is in use.
  absl::Status LoadCheckpoint(const Session& owner,
                              const SessionCheckpoint& checkpoint);

  // Whether Restore may bring a state that the session has lost.
  static bool CanRestore(const Session& session);
  // Brings the state back, where it can; `next` is called on some thread in any case.
  // REQUIRES: the caller holds the session.
  void Restore(const std::shared_ptr<Session>& session, std::function<void()> next);
  void Restore(const Session& owner, const SessionCheckpoint& checkpoint,
               std::function<void()> next);
  // Snapshots that were found damaged.
  int64_t damaged() const { return damaged_; }

 private:
  // Whether so much more of what rests fits just now.
  bool HasRoom(int64_t bytes) const;
  // The errors of Use and LoadCheckpoint. What is counted as a use before stays.
  absl::Status Load(Session& session);
  absl::Status Load(const Session& owner, const SessionCheckpoint& checkpoint);
  absl::StatusOr<std::vector<int32_t>> Read(const Session& session);
  int64_t VocabOf(const Session& session) const {
    return stores_.runners[session.model]->vocab();
  }
  absl::Status SetHistory(Session& session, const std::vector<int32_t>& tokens);
  void RestoreFrom(const std::shared_ptr<Session>& session, const std::string& id,
                   std::function<absl::StatusOr<std::string>()> read,
                   std::function<void(absl::Status)> next);

  StoreContext& stores_;
  const EngineContext& context_;
  HistorySweeps& sweeps_;
  std::atomic<int64_t> damaged_ = 0;
};

}  // namespace mnemon
