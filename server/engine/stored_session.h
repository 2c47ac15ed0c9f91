// SPDX-License-Identifier: MIT
// The record of a session in the store: all of it but history and state. A JSON object
// whose keys are the members' names; times are milliseconds since 1970.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/request.h"

namespace mnemon {

// A snapshot in the store (server/state/snapshot.h).
struct StoredSnapshot {
  std::string name;       // SessionStore::PutSnapshot; of format 1 a name in
                          // StoreTable::kSnapshotsOfFormat1
  uint64_t sequence = 0;  // of format 1: the last journal entry that is part of it
  int64_t tokens = 0;     // in its history
  int64_t computed = 0;   // which its state contains

  bool operator==(const StoredSnapshot&) const = default;
};

struct StoredCheckpoint {
  std::string id;  // its history has this name in StoreTable::kCheckpoints
  std::string request_id;
  std::chrono::system_clock::time_point create_time;
  StoredSnapshot snapshot;  // without a name: its state was not kept

  bool operator==(const StoredCheckpoint&) const = default;
};

struct StoredSession {
  static constexpr int64_t kFormat = 2;

  int64_t format = kFormat;  // 1: histories are in snapshots
  int64_t epoch = 1;         // of its owner's right to change it
  uint64_t sequence = 0;     // of the newest journal entry when it was written
  std::string model;         // its name
  std::string model_id;
  Durability durability = Durability::kTurn;
  std::chrono::system_clock::time_point create_time;
  std::chrono::system_clock::time_point last_use_time;
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<std::chrono::system_clock::time_point> expire_time;  // without a ttl
  std::optional<SessionSampling> sampling;
  bool paused = false;
  bool rebuilt = false;
  std::string parent;
  std::string request_id;
  std::string request_text;
  bool drawn_id = false;
  std::vector<std::string> request_ids;   // of its newest calls, the newest last
  std::string newest_call;                // FormatCallRecord, or empty
  std::optional<int64_t> scored_from;     // the history before its newest call, if
                                          // that scored and joined
  std::vector<StoredSnapshot> snapshots;  // oldest first
  std::vector<StoredCheckpoint> checkpoints;

  bool operator==(const StoredSession&) const = default;
  // When it is dropped for want of use, or at all.
  std::optional<std::chrono::system_clock::time_point> expiry() const;
};

std::string FormatStoredSession(const StoredSession& session);

// Keys of later versions are ignored. DATA_LOSS, RECORD_DAMAGED, names the key that is
// not as described; FAILED_PRECONDITION, STORE_FORMAT, a later format.
absl::StatusOr<StoredSession> ParseStoredSession(const std::string& text);

}  // namespace mnemon
