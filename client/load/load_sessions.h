// SPDX-License-Identifier: MIT
// The sessions of a load: created before it, used in turn, deleted after it.
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
  int64_t history = 0;  // tokens, as its last call told
};

// Safe for concurrent use.
class LoadSessions {
 public:
  // Makes `count` sessions named "loadtest-..." and random bits, until `stopped`. The
  // error of the first that could not be made; those before it are there.
  absl::Status Create(Client& client, int count, const std::string& model,
                      std::chrono::milliseconds ttl,
                      const std::function<bool()>& stopped);
  // The session that has rested longest. REQUIRES: one is free.
  LoadSession Take();
  // Makes it free again, behind all others.
  void GiveBack(LoadSession session);
  // An empty session of the same id in place of one that is taken.
  absl::Status Replace(Client& client, LoadSession& session);
  // Deletes all that Create made and that are still there, and goes on after an error,
  // but for UNAVAILABLE. The first error. REQUIRES: Take and Replace do not run.
  absl::Status DeleteAll(Client& client);

 private:
  std::mutex mutex_;
  std::deque<LoadSession> free_;  // guarded by mutex_
  // Constant from the end of Create to DeleteAll.
  std::vector<std::string> ids_;
  CreateSessionOptions options_;
};

}  // namespace mnemon::client
