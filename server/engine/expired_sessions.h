// SPDX-License-Identifier: MIT
// The expiry of sessions: on a thread of its own, and by methods that look at sessions.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "server/engine/engine_parts.h"

namespace mnemon {

// Safe for concurrent use, but for Start and Join.
class ExpiredSessions {
 public:
  // `parts` outlives it.
  explicit ExpiredSessions(const EngineParts& parts) : parts_(parts) {}

  // Throws std::system_error when there is no thread.
  void Start();
  // Two steps, because the thread may read the store until that stops.
  void RequestStop();
  void Join();

  // The time at which the next session expires may have changed.
  void Wake() { changed_.notify_all(); }
  // Removes expired sessions that are awake, about kPerCall at most. False: all of
  // them.
  bool RemoveExpired();
  static constexpr size_t kPerCall = 2048;
  // Removes this session if it has expired. One that sleeps is read from the store; the
  // error says why it is still there. An empty id is none.
  absl::Status Expire(const std::string& id);

 private:
  void Forget(std::shared_ptr<Session> expired);
  bool stopping() const;
  void Run();

  const EngineParts& parts_;
  std::thread thread_;
  mutable std::mutex mutex_;  // guards stopping_
  std::condition_variable changed_;
  bool stopping_ = false;
};

}  // namespace mnemon
