// SPDX-License-Identifier: MIT
// How sessions leave the directory: when their time has come, and what the store has of
// them before another one gets their ids.
#include <algorithm>
#include <new>
#include <utility>

#include "server/engine/session_directory.h"

namespace mnemon {

using Lock = std::lock_guard<std::mutex>;

bool SessionDirectory::Retire(const std::shared_ptr<Session>& session) {
  {
    Lock lock(mutex_);
    if (session->deleted) return false;
    RetireLocked(*session);
  }
  static_cast<void>(DeleteStored(*session));
  return true;
}

void SessionDirectory::RetireLocked(Session& session) {
  auto node = EraseLocked(session);
  if (session.journal != nullptr) leaving_.insert(std::move(node));
}

bool SessionDirectory::DeleteStored(const Session& session) try {
  if (session.journal != nullptr) session.journal->Delete(nullptr);
  Left(session);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void SessionDirectory::Left(const Session& session) {
  // Destroyed after the lock.
  Sessions::node_type left;
  Lock lock(mutex_);
  const auto found = leaving_.find(session.id);
  // Else it has left before, and this is a later one with its id.
  if (found == leaving_.end() || found->second.get() != &session) return;
  left = leaving_.extract(found);
}

std::vector<std::shared_ptr<Session>> SessionDirectory::RemoveExpired() {
  std::vector<std::shared_ptr<Session>> removed, left;
  const Time now = clock_.Now();
  {
    Lock lock(mutex_);
    const bool due = !expiries_.empty() && expiries_.begin()->first <= now;
    if (!due && leaving_.empty()) return removed;
  }
  removed.reserve(kExpiredAtOnce);
  left.reserve(kExpiredAtOnce);
  {
    Lock lock(mutex_);
    // For which memory had run out; or others do it at this moment.
    for (const auto& [id, session] : leaving_) {
      if (left.size() == kExpiredAtOnce) break;
      left.push_back(session);
    }
    while (!expiries_.empty() && expiries_.begin()->first <= now &&
           removed.size() < kExpiredAtOnce) {
      const std::string& id = expiries_.begin()->second->id;
      removed.push_back(sessions_.at(id));
      RetireLocked(*removed.back());
      expired_.Remember(id);
    }
  }
  for (const auto* const sessions : {&left, &removed}) {
    for (const auto& session : *sessions) static_cast<void>(DeleteStored(*session));
  }
  return removed;
}

std::shared_ptr<Session> SessionDirectory::RemoveIfExpired(const std::string& id) {
  std::shared_ptr<Session> expired;
  {
    Lock lock(mutex_);
    const auto found = sessions_.find(id);
    if (found == sessions_.end() || !ExpiredLocked(*found->second, clock_.Now())) {
      return nullptr;
    }
    expired = found->second;
    RetireLocked(*expired);
    expired_.Remember(id);
  }
  static_cast<void>(DeleteStored(*expired));
  return expired;
}

std::optional<SessionDirectory::Time> SessionDirectory::NextExpiry() const {
  Lock lock(mutex_);
  std::optional<Time> next;
  if (!expiries_.empty()) next = expiries_.begin()->first;
  const Time due = asleep_.due();
  if (due != Time::max()) next = next ? std::min(*next, due) : due;
  return next;
}

SessionDirectory::Time::duration SessionDirectory::UntilExpiry() const {
  const std::optional<Time> next = NextExpiry();
  return next ? std::max(*next - clock_.Now(), Time::duration()) : Time::duration();
}

SessionDirectory::Sessions::node_type SessionDirectory::EraseLocked(Session& session) {
  StopExpiryLocked(session);
  session.deleted = true;
  --counts_[session.model];
  if (!session.resident) --stored_[session.model];
  if (!session.request_id.empty()) requests_.erase(session.request_id);
  return sessions_.extract(session.id);
}

void SessionDirectory::StartExpiryLocked(Session& session) {
  if (session.expiry) return;
  if (session.expires_at) {
    session.expiry = session.expires_at;
  } else if (session.ttl && !session.held) {
    session.expiry = clock_.Now() + *session.ttl;
  } else {
    return;
  }
  session.expiry_node.value().first = *session.expiry;
  expiries_.insert(std::move(session.expiry_node));
}

void SessionDirectory::StopExpiryLocked(Session& session) {
  if (!session.expiry) return;
  session.expiry_node = expiries_.extract({*session.expiry, &session});
  session.expiry.reset();
}

}  // namespace mnemon
