// SPDX-License-Identifier: MIT
// How sessions fall asleep and wake up. A sleeping session is in the store only; the
// directory keeps its name and little else in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/sessions/session.h"
#include "server/sessions/session_table.h"
#include "server/sessions/sleeping_sessions.h"

namespace mnemon {

// Safe for concurrent use.
class SessionSleep {
 public:
  // Reads a session from the store; no directory knows it yet. Called without a lock.
  // The errors of the store.
  using Waker =
      std::function<absl::StatusOr<std::shared_ptr<Session>>(const std::string& id)>;

  // `table` and `clock` outlive it.
  SessionSleep(SessionTable& table, const Clock& clock)
      : table_(table), clock_(clock) {}

  // Before any session sleeps.
  void SetWaker(Waker waker) { waker_ = std::move(waker); }

  // Puts a session to sleep and returns the bytes that this frees. 0, and nothing
  // changed, unless it is awake and at rest, has no history in memory and a quiet
  // journal, and nobody else refers to it. On the journal writer's thread. Throws
  // std::bad_alloc, then nothing changed.
  int64_t Sleep(const std::string& id);
  // Returns an awake session, or wakes a sleeping one by reading the store on this
  // thread. Sessions that have expired are found only with `expired_too`. NOT_FOUND:
  // SESSION_EXPIRED for expired sessions, removed or not, if ExpiredIds still has them,
  // else SESSION_NOT_FOUND. RESOURCE_EXHAUSTED: no memory. The errors of Waker.
  absl::StatusOr<std::shared_ptr<Session>> Find(const std::string& id,
                                                bool expired_too = false);
  // A copy of a sleeping session, which stays asleep. The errors of Waker.
  absl::StatusOr<std::shared_ptr<Session>> Copy(const std::string& id,
                                                const SleepingFacts& facts) const;

  // Wakes a session that has expired in its sleep, for its removal; no effect on
  // others. The errors of Waker.
  absl::Status WakeExpired(const std::string& id);
  // Ids of sessions that have expired in their sleep, at most kFoundAtOnce; none for a
  // second after it has looked at all.
  static constexpr size_t kFoundAtOnce = 16;
  std::vector<std::string> FindExpired();

  // Removes a sleeping session without waking it. Its id stays taken until FreeId.
  // False: no such session is asleep.
  bool Remove(const std::string& id);
  void FreeId(const std::string& id);

  int64_t size() const;   // sleeping sessions
  int64_t bytes() const;  // of memory that they take

 private:
  enum class Woken { kYes, kGone, kNoRoom };
  // `sleep`: SleepingFacts::sleep when the session was read. `in_any_case`: even
  // without room. kGone: another thread has woken or removed it. Throws std::bad_alloc.
  Woken PutAwake(const std::shared_ptr<Session>& session, uint64_t sleep,
                 bool in_any_case);

  SessionTable& table_;
  const Clock& clock_;
  Waker waker_;
  uint64_t sleeps_ = 0;  // guarded by the table's mutex
};

}  // namespace mnemon
