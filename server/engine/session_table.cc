// SPDX-License-Identifier: MIT
#include "server/engine/session_table.h"

namespace mnemon {

std::shared_ptr<Session> SessionTable::Find(const std::string& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

bool SessionTable::Insert(std::shared_ptr<Session> session) {
  return sessions_.try_emplace(session->id, session).second;
}

void SessionTable::Erase(Session& session) {
  Use(session);
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
  }
  return expired;
}

std::optional<SessionTable::Time> SessionTable::NextExpiry() const {
  if (expiries_.empty()) return std::nullopt;
  return expiries_.begin()->first;
}

}  // namespace mnemon
