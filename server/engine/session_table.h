// SPDX-License-Identifier: MIT
// The named sessions: by id for look-up and paging, by expiry for dropping. Not safe
// for concurrent use: guarded by the engine's mutex.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/session.h"

namespace mnemon {

class SessionTable {
 public:
  using Time = std::chrono::steady_clock::time_point;

  int64_t size() const { return static_cast<int64_t>(sessions_.size()); }
  // Null when there is none.
  std::shared_ptr<Session> Find(const std::string& id) const;
  // The one that this request made; null when there is none.
  std::shared_ptr<Session> FindRequest(const std::string& request_id) const;
  // Whether the session with this id expired, as far as is remembered.
  bool Expired(const std::string& id) const;
  // False when the id is taken.
  bool Insert(std::shared_ptr<Session> session);
  // REQUIRES: in the table.
  void Erase(Session& session);
  // Up to `count` sessions whose ids come after `after`, by id.
  std::vector<std::shared_ptr<Session>> After(const std::string& after,
                                              size_t count) const;

  // The session rests: with a ttl it expires that long after `now`.
  void Rest(Session& session, Time now);
  // The session is in use: it does not expire.
  void Use(Session& session);
  // Removes and returns the sessions whose expiry is at or before `now`.
  std::vector<std::shared_ptr<Session>> TakeExpired(Time now);
  std::optional<Time> NextExpiry() const;

 private:
  std::map<std::string, std::shared_ptr<Session>> sessions_;
  std::set<std::pair<Time, std::string>> expiries_;
  std::map<std::string, std::string> requests_;  // id of the session each one made
  static constexpr size_t kRemembered = 1024;
  std::deque<std::string> expired_;  // the newest last
};

}  // namespace mnemon
