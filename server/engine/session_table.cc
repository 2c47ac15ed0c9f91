// SPDX-License-Identifier: MIT
#include "server/engine/session_table.h"

#include <algorithm>

namespace mnemon {

std::shared_ptr<Session> SessionTable::Find(const std::string& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

std::shared_ptr<Session> SessionTable::FindRequest(
    const std::string& request_id) const {
  const auto found = requests_.find(request_id);
  return found == requests_.end() ? nullptr : Find(found->second);
}

bool SessionTable::Expired(const std::string& id) const {
  return std::find(expired_.begin(), expired_.end(), id) != expired_.end();
}

bool SessionTable::Insert(std::shared_ptr<Session> session) {
  if (!sessions_.try_emplace(session->id, session).second) return false;
  if (!session->request_id.empty()) requests_[session->request_id] = session->id;
  std::erase(expired_, session->id);
  return true;
}

void SessionTable::Erase(Session& session) {
  Use(session);
  if (!session.request_id.empty()) requests_.erase(session.request_id);
  sessions_.erase(session.id);
}

std::vector<std::shared_ptr<Session>> SessionTable::After(const std::string& after,
                                                          size_t count) const {
  std::vector<std::shared_ptr<Session>> page;
  for (auto it = sessions_.upper_bound(after);
       it != sessions_.end() && page.size() < count; ++it) {
    page.push_back(it->second);
  }
  return page;
}

void SessionTable::Rest(Session& session, Time now) {
  Use(session);
  if (!session.ttl) return;
  session.expiry = now + *session.ttl;
  expiries_.emplace(*session.expiry, session.id);
}

void SessionTable::Use(Session& session) {
  if (!session.expiry) return;
  expiries_.erase({*session.expiry, session.id});
  session.expiry.reset();
}

std::vector<std::shared_ptr<Session>> SessionTable::TakeExpired(Time now) {
  std::vector<std::shared_ptr<Session>> expired;
  while (!expiries_.empty() && expiries_.begin()->first <= now) {
    expired.push_back(Find(expiries_.begin()->second));
    Erase(*expired.back());
    expired_.push_back(expired.back()->id);
    if (expired_.size() > kRemembered) expired_.pop_front();
  }
  return expired;
}

std::optional<SessionTable::Time> SessionTable::NextExpiry() const {
  if (expiries_.empty()) return std::nullopt;
  return expiries_.begin()->first;
}

}  // namespace mnemon
