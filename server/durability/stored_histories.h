// SPDX-License-Identifier: MIT
// Histories between memory and the store: read from it, and unloaded where it has them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/durability/store_context.h"
#include "server/sessions/session.h"

namespace mnemon {

// Safe for concurrent use.
class StoredHistories {
 public:
  // `stores` outlives it.
  explicit StoredHistories(StoreContext& stores)
      : stores_(stores), context_(stores.engine) {}

  // Reads the history of a session that is not resident, on the calling thread. What is
  // counted as a use before stays. DATA_LOSS, SESSION_DAMAGED; NOT_FOUND, when it was
  // deleted meanwhile; MEMORY_LIMIT; the store's.
  absl::Status Load(Session& session);
  // The history of a checkpoint. REQUIRES: the owner is in use. CHECKPOINT_DAMAGED, and
  // the others.
  absl::Status Load(const Session& owner, const SessionCheckpoint& checkpoint);
  // The history of a session leaves memory, with those of its checkpoints, where the
  // store has them and nobody uses them. On the writer's thread. The bytes that it
  // frees.
  int64_t Unload(Session& session);
  // Sessions that were unloaded.
  int64_t unloaded() const { return unloaded_; }

 private:
  absl::StatusOr<std::vector<int32_t>> Read(const Session& session);
  absl::Status CheckTokens(const std::vector<int32_t>& tokens, size_t model) const;
  absl::Status SetHistory(Session& session, const std::vector<int32_t>& tokens);
  std::mutex& LoadingOf(const Session& session);

  StoreContext& stores_;
  const EngineContext& context_;
  // One history is read at a time by each of them, by the session's id.
  std::array<std::mutex, 16> loading_;
  std::atomic<int64_t> unloaded_ = 0;
};

}  // namespace mnemon
