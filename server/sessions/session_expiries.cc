// SPDX-License-Identifier: MIT
#include "server/sessions/session_expiries.h"

#include <utility>

namespace mnemon {

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

}  // namespace mnemon
