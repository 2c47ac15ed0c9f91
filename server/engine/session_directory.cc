// SPDX-License-Identifier: MIT
#include "server/engine/session_directory.h"

#include <algorithm>

#include "base/status_macros.h"
#include "server/engine/engine_errors.h"

namespace mnemon {

using engine_errors::NotFound;
using engine_errors::RequestIdReused;
using engine_errors::RequestRepeated;
using engine_errors::SessionBusy;
using engine_errors::SessionExists;
using engine_errors::SessionExpired;
using engine_errors::SessionLimit;
using Lock = std::lock_guard<std::mutex>;

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::Insert(
    std::shared_ptr<Session> session, bool drawn_id) {
  Lock lock(mutex_);
  if (const auto made = requests_.find(session->request_id);
      made != requests_.end() && !session->request_id.empty()) {
    const std::shared_ptr<Session>& other = sessions_.at(made->second);
    const bool same = (drawn_id || session->id == other->id) &&
                      session->model == other->model && session->ttl == other->ttl;
    if (!same) return RequestIdReused(other->id);
    return other;
  }
  if (sessions_.contains(session->id)) return SessionExists(session->id);
  Count& count = counts_[session->model];
  if (count.named + count.stateless >= limit_) return SessionLimit(limit_);
  if (session->ttl) {
    ExpirySet one = {{{}, session.get()}};
    session->expiry_node = one.extract(one.begin());
  }
  const auto at = sessions_.emplace(session->id, session).first;
  if (!session->request_id.empty()) {
    try {
      requests_.emplace(session->request_id, session->id);
    } catch (...) {
      sessions_.erase(at);
      throw;
    }
  }
  ++count.named;
  ++created_count_;
  std::erase(expired_, session->id);
  session->create_time = session->last_use_time = clock_.WallNow();
  StartExpiryLocked(*session);
  return session;
}

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::Find(
    const std::string& id) const {
  Lock lock(mutex_);
  return FindLocked(id);
}

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::FindLocked(
    const std::string& id) const {
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) return found->second;
  if (std::find(expired_.begin(), expired_.end(), id) != expired_.end()) {
    return SessionExpired(id);
  }
  return NotFound(id);
}

absl::StatusOr<std::shared_ptr<Session>> SessionDirectory::Remove(
    const std::string& id) {
  Lock lock(mutex_);
  MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, FindLocked(id));
  EraseLocked(session);
  return session;
}

std::vector<std::shared_ptr<Session>> SessionDirectory::RemoveExpired() {
  std::vector<std::shared_ptr<Session>> removed;
  const Time now = clock_.Now();
  Lock lock(mutex_);
  if (expiries_.empty() || expiries_.begin()->first > now) return removed;
  removed.reserve(kExpiredAtOnce);
  while (!expiries_.empty() && expiries_.begin()->first <= now &&
         removed.size() < kExpiredAtOnce) {
    const std::string& id = expiries_.begin()->second->id;
    expired_.push_back(id);
    if (expired_.size() > kRemembered) expired_.pop_front();
    removed.push_back(sessions_.at(id));
    EraseLocked(removed.back());
    ++expired_count_;
  }
  return removed;
}

std::optional<SessionDirectory::Time> SessionDirectory::NextExpiry() const {
  Lock lock(mutex_);
  if (expiries_.empty()) return std::nullopt;
  return expiries_.begin()->first;
}

std::vector<std::shared_ptr<Session>> SessionDirectory::After(const std::string& after,
                                                              size_t count) const {
  std::vector<std::shared_ptr<Session>> page;
  page.reserve(count);
  Lock lock(mutex_);
  for (auto it = sessions_.upper_bound(after);
       it != sessions_.end() && page.size() < count; ++it) {
    page.push_back(it->second);
  }
  return page;
}

absl::Status SessionDirectory::Hold(Session& session, const std::string& request_id) {
  Lock lock(mutex_);
  if (session.deleted) return NotFound(session.id);
  const auto& ids = session.request_ids;
  const auto& held = session.holder_request_id;
  if (!request_id.empty() &&
      (std::find(held.begin(), held.end(), request_id) != held.end() ||
       std::find(ids.begin(), ids.end(), request_id) != ids.end())) {
    return RequestRepeated(session.id);
  }
  if (session.held) return SessionBusy(session.id);
  if (!request_id.empty()) session.holder_request_id.push_back(request_id);
  session.held = true;
  session.last_use_time = clock_.WallNow();
  StopExpiryLocked(session);
  return absl::OkStatus();
}

bool SessionDirectory::Release(Session& session, bool taken) {
  Lock lock(mutex_);
  session.held = false;
  if (taken) {
    session.request_ids.splice(session.request_ids.end(), session.holder_request_id);
    if (session.request_ids.size() > Session::kRequestIds) {
      session.request_ids.pop_front();
    }
  }
  session.holder_request_id.clear();
  session.running.store(false, std::memory_order_relaxed);
  if (session.deleted) return false;
  session.last_use_time = clock_.WallNow();
  StartExpiryLocked(session);
  return true;
}

SessionDirectory::Room SessionDirectory::RoomForStateless(size_t model) const {
  Lock lock(mutex_);
  return RoomLocked(model);
}

SessionDirectory::Room SessionDirectory::TakeStateless(size_t model) {
  Lock lock(mutex_);
  const Room room = RoomLocked(model);
  if (room == Room::kFree) ++counts_[model].stateless;
  return room;
}

SessionDirectory::Room SessionDirectory::RoomLocked(size_t model) const {
  const Count& count = counts_[model];
  if (count.named + count.stateless < limit_) return Room::kFree;
  return count.stateless > 0 ? Room::kLater : Room::kNone;
}

void SessionDirectory::ReturnStateless(size_t model) {
  Lock lock(mutex_);
  --counts_[model].stateless;
}

SessionDirectory::Facts SessionDirectory::FactsOf(const Session& session) const {
  Lock lock(mutex_);
  return {.held = session.held,
          .last_use_time = session.last_use_time,
          .expiry = session.expiry};
}

int64_t SessionDirectory::size() const {
  Lock lock(mutex_);
  return static_cast<int64_t>(sessions_.size());
}

int64_t SessionDirectory::created() const {
  Lock lock(mutex_);
  return created_count_;
}

int64_t SessionDirectory::expired() const {
  Lock lock(mutex_);
  return expired_count_;
}

void SessionDirectory::EraseLocked(const std::shared_ptr<Session>& session) {
  StopExpiryLocked(*session);
  session->deleted = true;
  --counts_[session->model].named;
  if (!session->request_id.empty()) requests_.erase(session->request_id);
  sessions_.erase(session->id);
}

void SessionDirectory::StartExpiryLocked(Session& session) {
  if (!session.ttl) return;
  session.expiry = clock_.Now() + *session.ttl;
  session.expiry_node.value().first = *session.expiry;
  expiries_.insert(std::move(session.expiry_node));
}

void SessionDirectory::StopExpiryLocked(Session& session) {
  if (!session.expiry) return;
  session.expiry_node = expiries_.extract({*session.expiry, &session});
  session.expiry.reset();
}

}  // namespace mnemon
