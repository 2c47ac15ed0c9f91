// SPDX-License-Identifier: MIT
// Requests for snapshots of sessions: at once, or when a session has rested. They are
// made one after the other, on the thread for snapshots.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "server/durability/snapshot_saves.h"
#include "server/run/engine_context.h"
#include "server/sessions/session.h"

namespace mnemon {

// Safe for concurrent use.
class SnapshotRequests {
 public:
  // Both outlive it, and what it has begun.
  SnapshotRequests(const EngineContext& context, SnapshotSaves& saves)
      : context_(context), saves_(saves) {}

  // DurableSessions::RequestSnapshot and RequestAtRest.
  void Request(const std::shared_ptr<Session>& session) noexcept;
  void RequestAtRest(const std::shared_ptr<Session>& session) noexcept;
  // Requests those of all durable sessions in memory, and waits for them until
  // `deadline`. False: not all are made.
  bool SaveAll(std::chrono::steady_clock::time_point deadline);
  // None is begun any more. The sessions that waited; their journals are to be told.
  std::deque<std::shared_ptr<Session>> Stop();

 private:
  struct Resting {
    std::shared_ptr<Session> session;
    std::chrono::steady_clock::time_point until;
  };

  // Requests those of sessions that have rested.
  void RequestRested();
  void PostNext() noexcept;
  void StartNext();
  void OnSaved();

  const EngineContext& context_;
  SnapshotSaves& saves_;

  std::mutex mutex_;  // guards all below
  std::condition_variable saved_;
  std::deque<std::shared_ptr<Session>> wanted_;
  // Those of RequestAtRest, the longest at rest first, and where each of them is.
  std::list<Resting> resting_;
  std::unordered_map<const Session*, std::list<Resting>::iterator> resting_at_;
  bool rest_ends_ = false;  // RequestRested is due
  bool saving_ = false;
  bool stopping_ = false;
};

}  // namespace mnemon
