// SPDX-License-Identifier: MIT
#include "client/load/load_sessions.h"

#include <random>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon::client {

absl::Status LoadSessions::Create(Client& client, int count, const std::string& model,
                                  std::chrono::milliseconds ttl,
                                  const std::function<bool()>& stopped) {
  // Two loads with the same seed on one server must not collide.
  std::random_device random;
  const std::string prefix = absl::StrFormat("loadtest-%08x%08x", random(), random());
  options_ = {.model = model, .ttl = ttl};
  for (int i = 0; i < count && !stopped(); ++i) {
    options_.id = StrCat(prefix, "-", i);
    MNEMON_RETURN_IF_ERROR(client.CreateSession(options_).status());
    ids_.push_back(options_.id);
    GiveBack({.id = options_.id});
  }
  return absl::OkStatus();
}

LoadSession LoadSessions::Take() {
  std::lock_guard lock(mutex_);
  MNEMON_CHECK(!free_.empty());
  LoadSession session = std::move(free_.front());
  free_.pop_front();
  return session;
}

void LoadSessions::GiveBack(LoadSession session) {
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(session));
}

absl::Status LoadSessions::Replace(Client& client, LoadSession& session) {
  MNEMON_RETURN_IF_ERROR(client.DeleteSession(session.id));
  session.history = 0;
  CreateSessionOptions options = options_;
  options.id = session.id;
  return client.CreateSession(options).status();
}

absl::Status LoadSessions::DeleteAll(Client& client) {
  absl::Status first;
  for (const std::string& id : std::exchange(ids_, {})) {
    const absl::Status status = client.DeleteSession(id);
    if (absl::IsNotFound(status)) continue;
    if (!status.ok() && first.ok()) first = status;
    if (absl::IsUnavailable(status)) break;
  }
  return first;
}

}  // namespace mnemon::client
