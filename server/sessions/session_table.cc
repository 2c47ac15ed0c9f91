// SPDX-License-Identifier: MIT
#include "server/sessions/session_table.h"

#include <utility>

namespace mnemon {

SessionTable::Place::Place(const std::shared_ptr<Session>& session)
    : session_(*session),
      by_id_({{session->id, session}}),
      by_request_({{session->request_id, &session->id}}) {
  SessionExpiries::Prepare(*session);
}

SessionTable::SessionTable(size_t models, const Clock& clock,
                           const std::shared_ptr<EngineMemory>& memory)
    : asleep_(ChargeOf(memory, &EngineMemory::sessions)),
      expiries_(clock),
      expired_(ChargeOf(memory, &EngineMemory::sessions)),
      sizes_(models),
      stored_(models) {}

std::optional<std::string_view> SessionTable::CreatedBy(
    const std::string& request_id) const {
  const auto found = requests_.find(request_id);
  if (found != requests_.end()) return *found->second;
  return asleep_.FindRequest(request_id);
}

bool SessionTable::Contains(const std::string& id) const {
  return awake_.contains(id) || asleep_.Find(id).has_value() || given_up_.contains(id);
}

int64_t SessionTable::size() const {
  return static_cast<int64_t>(awake_.size()) + asleep_.size();
}

void SessionTable::Add(Place& place) {
  const Session& session = place.session_;
  awake_.merge(place.by_id_);
  if (!session.request_id.empty()) requests_.merge(place.by_request_);
  ++sizes_[session.model];
  if (!session.resident) ++stored_[session.model];
}

SessionTable::Sessions::node_type SessionTable::Remove(Session& session) {
  expiries_.Stop(session);
  session.entry.deleted = true;
  --sizes_[session.model];
  if (!session.resident) --stored_[session.model];
  if (!session.request_id.empty()) requests_.erase(session.request_id);
  return awake_.extract(session.id);
}

void SessionTable::Retire(Session& session) {
  auto node = Remove(session);
  if (session.journal != nullptr) leaving_.insert(std::move(node));
}

SessionTable::Sessions::node_type SessionTable::TakeLeaving(const Session& session) {
  const auto found = leaving_.find(session.id);
  if (found == leaving_.end() || found->second.get() != &session) return {};
  return leaving_.extract(found);
}

void SessionTable::SetResident(Session& session, bool resident) {
  if (!session.entry.deleted && session.resident != resident) {
    stored_[session.model] += resident ? -1 : 1;
  }
  session.resident = resident;
}

std::shared_ptr<Session> SessionTable::PutToSleep(const std::string& id,
                                                  SleepingSessions::Block block) {
  asleep_.Add(std::move(block));
  const auto found = awake_.find(id);
  std::shared_ptr<Session> session = std::move(found->second);
  awake_.erase(found);
  expiries_.Stop(*session);
  if (session->resident) ++stored_[session->model];
  if (!session->request_id.empty()) requests_.erase(session->request_id);
  return session;
}

SleepingSessions::Block SessionTable::Wake(Place& place) {
  Session& session = place.session_;
  if (session.entry.expiry) expiries_.StartAt(session, *session.entry.expiry);
  if (!session.request_id.empty()) requests_.merge(place.by_request_);
  if (session.resident) --stored_[session.model];
  awake_.merge(place.by_id_);
  return *asleep_.Take(session.id);
}

std::optional<SleepingSessions::Block> SessionTable::RemoveAsleep(Ids& id) {
  std::optional<SleepingSessions::Block> slept = asleep_.Take(*id.begin());
  if (!slept) return std::nullopt;
  given_up_.merge(id);
  const size_t model = slept->Read().facts.model;
  --sizes_[model];
  --stored_[model];
  return slept;
}

}  // namespace mnemon
