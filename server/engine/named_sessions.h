// SPDX-License-Identifier: MIT
// Named sessions as methods find them (not expired, awake, with their history where
// that is needed) and make them; the thread that removes those that expire.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/engine_parts.h"
#include "server/requests/request.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Safe for concurrent use, but for Start and Join.
class NamedSessions {
 public:
  // `parts` outlives it.
  explicit NamedSessions(const EngineParts& parts) : parts_(parts) {}

  // Starts the thread. Throws std::system_error.
  void Start();
  // End the thread, in two steps because it may read the store until that stops.
  void RequestStop();
  void Join();
  // The time at which the next session expires may have changed.
  void WakeExpiry() { changed_.notify_all(); }
  // Removes some 2000 expired sessions that are awake. False: all of them.
  bool RemoveExpired();

  // These four wait, on the calling thread, for the store where a session sleeps or its
  // history is not in memory. NOT_FOUND; SESSION_EXPIRED; MEMORY_LIMIT, after a wait
  // for room; DATA_LOSS, SESSION_DAMAGED; FAILED_PRECONDITION, MODEL_FINGERPRINT, for a
  // session of a model that is not loaded.

  // The session of the directory, expired or not. NOT_FOUND also for one that the store
  // has and that cannot be served.
  absl::StatusOr<std::shared_ptr<Session>> FindAwake(const std::string& id);
  // Removes expired sessions first.
  absl::StatusOr<std::shared_ptr<Session>> Find(const std::string& id);
  // Find, with the history in memory as long as a copy of the pointer exists.
  absl::StatusOr<std::shared_ptr<Session>> FindWithHistory(const std::string& id);
  // The session that an earlier request with this id has made; it does not sleep as
  // long as the pointer exists. Null: none that is still there.
  absl::StatusOr<std::shared_ptr<Session>> FindMadeBy(const std::string& request_id);

  // Checks the ids of a request to make a session or a checkpoint: `id`, the value of
  // `field`, may be empty.
  static absl::Status CheckIds(const std::string& id, const std::string& request_id,
                               const std::string& field = "session_id");
  // An empty session that is in no directory yet, with its place in the store, if there
  // is one; an empty id is drawn. `has_history`: it is to begin with one. UNAVAILABLE,
  // DRAINING; MEMORY_LIMIT; FAILED_PRECONDITION, NO_STORE; the error of a store that
  // takes nothing.
  absl::StatusOr<std::shared_ptr<Session>> Make(const std::string& id, size_t model,
                                                Durability durability,
                                                bool has_history);
  Durability default_durability() const;
  // Answers for a session that has joined the directory, once it is synced, and reports
  // `event`, which says how it was made. If it is not `fresh`, the session of this
  // request, an earlier request made it. A fresh one that cannot be stored is removed,
  // so that the request can be repeated.
  void AnswerWhenMade(const absl::StatusOr<std::shared_ptr<Session>>& made,
                      const Session* fresh, SessionEvent event,
                      OnAnswer<SessionFacts> on_done);

 private:
  // Removes this session if it has expired. One that sleeps is read from the store; the
  // error says why it is still there. An empty id is none.
  absl::Status Expire(const std::string& id);
  void Forget(std::shared_ptr<Session> expired);
  void Run();

  const EngineParts& parts_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stopping_ = false;  // set with mutex_ held
};

}  // namespace mnemon
