// SPDX-License-Identifier: MIT
#include "server/sessions/session_checkpoints.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "server/requests/engine_errors.h"

namespace mnemon {

using Lock = std::lock_guard<std::mutex>;

absl::StatusOr<SessionCheckpoint> SessionCheckpoints::Add(Session& session,
                                                          SessionCheckpoint checkpoint,
                                                          bool drawn_id) {
  checkpoint.create_time = clock_.WallNow();
  enum { kNotFound, kReused, kTaken, kFull } refused = kNotFound;
  {
    Lock lock(table_.mutex());
    SessionEntry& entry = session.entry;
    auto& all = entry.checkpoints;
    const auto made = std::find_if(all.begin(), all.end(), [&](const auto& other) {
      return !checkpoint.request_id.empty() &&
             other.request_id == checkpoint.request_id;
    });
    if (made != all.end() && (drawn_id || made->id == checkpoint.id)) return *made;
    const bool taken = std::any_of(all.begin(), all.end(), [&](const auto& other) {
      return other.id == checkpoint.id;
    });
    if (entry.deleted) {
      refused = kNotFound;
    } else if (made != all.end()) {
      refused = kReused;
    } else if (taken) {
      refused = kTaken;
    } else if (all.size() >= SessionEntry::kCheckpoints) {
      refused = kFull;
    } else {
      checkpoint.update_before = entry.updates;
      checkpoint.update = entry.newest_update + 1;
      all.push_back(checkpoint);
      entry.updates = entry.newest_update = checkpoint.update;
      return checkpoint;
    }
  }
  switch (refused) {
    case kReused:
      return engine_errors::RequestIdReused(session.id);
    case kTaken:
      return engine_errors::CheckpointExists(session.id, checkpoint.id);
    case kFull:
      return engine_errors::CheckpointLimit(session.id, SessionEntry::kCheckpoints);
    case kNotFound:
      break;
  }
  return engine_errors::NotFound(session.id);
}

bool SessionCheckpoints::Remove(Session& session, const Session& at) {
  // Allocated before locking, destroyed after unlocking.
  std::vector<SessionCheckpoint> removed;
  removed.reserve(1);
  Lock lock(table_.mutex());
  SessionEntry& entry = session.entry;
  auto& all = entry.checkpoints;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& checkpoint) {
    return checkpoint.at.get() == &at;
  });
  // The list of a removed session does not change.
  if (found == all.end() || entry.deleted) return false;
  const bool newest = entry.updates == found->update;
  entry.updates = newest ? found->update_before : ++entry.newest_update;
  removed.push_back(std::move(*found));
  all.erase(found);
  return true;
}

absl::StatusOr<SessionCheckpoint> SessionCheckpoints::Find(
    const Session& session, const std::string& id) const {
  {
    Lock lock(table_.mutex());
    for (const SessionCheckpoint& checkpoint : session.entry.checkpoints) {
      if (checkpoint.id == id) return checkpoint;
    }
  }
  return engine_errors::CheckpointNotFound(session.id, id);
}

std::vector<SessionCheckpoint> SessionCheckpoints::Of(const Session& session) const {
  Lock lock(table_.mutex());
  return session.entry.checkpoints;
}

}  // namespace mnemon
