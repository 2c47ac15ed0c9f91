// SPDX-License-Identifier: MIT
// Records of a session, as JSON objects: of its settings in a snapshot, and of all of
// it except history and state in the store.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/requests/request.h"

namespace mnemon {

// A snapshot in the store (server/snapshots/snapshot.h).
struct StoredSnapshot {
  std::string name;       // of SessionStore::PutSnapshot; in format 1 a name in
                          // StoreTable::kSnapshotsOfFormat1
  uint64_t sequence = 0;  // in format 1: the last journal entry that it contains
  int64_t tokens = 0;     // in its history
  int64_t computed = 0;   // tokens that its state contains

  bool operator==(const StoredSnapshot&) const = default;
};

struct StoredCheckpoint {
  std::string id;  // also the name of its history in StoreTable::kCheckpoints
  std::string request_id;
  std::chrono::system_clock::time_point create_time;
  StoredSnapshot snapshot;  // an empty name: its state was not kept

  bool operator==(const StoredCheckpoint&) const = default;
};

struct StoredSession {
  static constexpr int64_t kFormat = 2;

  int64_t format = kFormat;  // 1: histories are in snapshots
  int64_t epoch = 1;         // of the ownership under which it is changed
  uint64_t sequence = 0;     // of the newest journal entry when it was written
  std::string model;         // name of the model
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
  std::vector<std::string> request_ids;   // of its newest calls, newest last
  std::string newest_call;                // FormatCallRecord, or empty
  std::optional<int64_t> scored_from;     // tokens before its newest call, if that
                                          // scored and its tokens joined
  std::vector<StoredSnapshot> snapshots;  // oldest first
  std::vector<StoredCheckpoint> checkpoints;

  bool operator==(const StoredSession&) const = default;
  // When it expires: by its ttl or at its expire_time.
  std::optional<std::chrono::system_clock::time_point> expiry() const;
};

// Keys are the members' names; times are milliseconds since 1970.
std::string FormatStoredSession(const StoredSession& session);

// Unknown keys, of later versions, are ignored, here and below. DATA_LOSS,
// RECORD_DAMAGED, names the malformed key; FAILED_PRECONDITION, STORE_FORMAT, a later
// format.
absl::StatusOr<StoredSession> ParseStoredSession(const std::string& text);

// The ttl and the sampling of `settings`. Keys, each absent without a value:
//   ttl_ms    integer
//   sampling  object: the members of RequestedSampling by their names, logit_bias as a
//             list of [token, bias], where null is minus infinity; "seed" as a string
//             of decimal digits
std::string FormatSessionRecord(const SessionSettings& settings);

// The other members are absent. DATA_LOSS, SNAPSHOT_DAMAGED, names the malformed key.
absl::StatusOr<SessionSettings> ParseSessionRecord(const std::string& text);

}  // namespace mnemon
