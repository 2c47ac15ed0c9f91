// SPDX-License-Identifier: MIT
#include "server/sessions/session_table.h"

#include <new>

#include "base/memory/heap_bytes.h"

namespace mnemon {
namespace {

// With its nodes in list and map.
int64_t ExpiredIdBytes(const std::string& id) {
  return HeapBytes(2 * sizeof(void*) + sizeof(id)) + TextHeapBytes(id) +
         HeapBytes(5 * sizeof(void*)) + static_cast<int64_t>(sizeof(void*));
}

}  // namespace

void SessionExpiries::Prepare(Session& session) {
  ExpirySet one = {{{}, &session}};
  session.entry.expiry_node = one.extract(one.begin());
}

void SessionExpiries::Start(Session& session) {
  if (session.entry.expiry) return;
  if (session.entry.expires_at) {
    StartAt(session, *session.entry.expires_at);
  } else if (session.entry.ttl && !session.entry.held) {
    StartAt(session, clock_.Now() + *session.entry.ttl);
  }
}

void SessionExpiries::StartAt(Session& session, Time expiry) {
  session.entry.expiry = expiry;
  session.entry.expiry_node.value().first = expiry;
  expiries_.insert(std::move(session.entry.expiry_node));
}

void SessionExpiries::Stop(Session& session) {
  if (!session.entry.expiry) return;
  session.entry.expiry_node = expiries_.extract({*session.entry.expiry, &session});
  session.entry.expiry.reset();
}

std::optional<SessionExpiries::Time> SessionExpiries::first() const {
  if (expiries_.empty()) return std::nullopt;
  return expiries_.begin()->first;
}

Session* SessionExpiries::FirstExpired(Time now) const {
  if (expiries_.empty() || expiries_.begin()->first > now) return nullptr;
  return expiries_.begin()->second;
}

void ExpiredIds::Remember(const std::string& id) try {
  Forget(id);
  std::list<std::string> newest = {id};
  places_.emplace(newest.back(), newest.begin());
  order_.splice(order_.end(), newest);
  charge_.Set(charge_.bytes() + ExpiredIdBytes(order_.back()));
  if (order_.size() > kMost) Forget(order_.front());
} catch (const std::bad_alloc&) {
  // That id is answered as one that never was.
}

void ExpiredIds::Forget(const std::string& id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return;
  const auto place = found->second;
  places_.erase(found);  // its key is the text of the place
  charge_.Set(charge_.bytes() - ExpiredIdBytes(*place));
  order_.erase(place);
}

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

void SessionTable::Retire(Session& session) {
  expiries_.Stop(session);
  session.entry.deleted = true;
  --sizes_[session.model];
  if (!session.resident) --stored_[session.model];
  if (!session.request_id.empty()) requests_.erase(session.request_id);
  auto node = awake_.extract(session.id);
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
