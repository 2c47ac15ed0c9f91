// SPDX-License-Identifier: MIT
// The sessions of a load test: created before it, used in turn, deleted after it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/client.h"

namespace mnemon::client {

struct LoadSession {
  std::string id;
  int64_t history = 0;  // tokens according to its last call
};

// Safe for concurrent use.
class LoadSessions {
 public:
  // Creates `count` sessions named "loadtest-..." plus random bits, until `stopped`.
  // Returns the error of the first that could not be created; earlier ones exist.
  absl::Status Create(Client& client, int count, const std::string& model,
                      std::chrono::milliseconds ttl,
                      const std::function<bool()>& stopped);
  // Takes the session that has been idle longest. REQUIRES: one is free.
  LoadSession Take();
  // Returns it, after all others in the queue.
  void GiveBack(LoadSession session);
  // Replaces a taken session by an empty one of the same id.
  absl::Status Replace(Client& client, LoadSession& session);
  // Deletes all existing sessions of Create; continues after errors except UNAVAILABLE,
  // and returns the first. REQUIRES: Take and Replace do not run.
  absl::Status DeleteAll(Client& client);

 private:
  std::mutex mutex_;
  std::deque<LoadSession> free_;  // guarded by mutex_
  // Immutable from the end of Create to DeleteAll.
  std::vector<std::string> ids_;
  CreateSessionOptions options_;
};

}  // namespace mnemon::client
