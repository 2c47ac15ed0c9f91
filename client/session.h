// SPDX-License-Identifier: MIT
// Sessions as seen by callers, and the arguments of calls on them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/generate_options.h"

namespace mnemon::client {

using SystemTime = std::chrono::system_clock::time_point;

// What survives a crash of the server.
enum class Durability { kServerDefault, kNone, kTurn, kAlways };

struct SessionCheckpoint {
  std::string id;
  int64_t position = 0;  // tokens in the history at that time
  int64_t size_bytes = 0;
  std::optional<SystemTime> create_time;
};

// Ids and names of models are without "sessions/" and "models/"; names of enumerators
// are as in the proto.
struct Session {
  std::string id;
  std::string model;
  std::string state;     // "IDLE", "QUEUED", "RUNNING", "PAUSED", "DETACHED"
  int64_t position = 0;  // tokens in the history
  int64_t state_size_bytes = 0;
  std::optional<SystemTime> create_time;
  std::optional<SystemTime> last_use_time;
  std::optional<SystemTime> expire_time;  // absent: never
  std::string etag;
  std::string parent;        // empty: not forked
  bool rebuilt = false;      // the state was recomputed from the history
  std::string durability;    // "NONE", "TURN", "ALWAYS"
  SamplingOptions sampling;  // for calls without their own
  bool paused = false;
  std::string tier;  // "DEVICE", "HOST", "DISK"
  std::string model_id;
  std::string numerics_id;
  std::vector<SessionCheckpoint> checkpoints;  // oldest first
};

inline constexpr std::chrono::hours kDefaultTtl{24};

// In all options below: an empty id is drawn by the server; request_id is a UUID that
// makes the call idempotent, drawn if empty; `expire_time`, if present, replaces `ttl`.

struct CreateSessionOptions {
  std::string id;
  std::string model;  // may be empty if the server has one
  // The session is deleted this long after its last use; nullopt: the server's default.
  std::optional<std::chrono::milliseconds> ttl = kDefaultTtl;
  std::optional<SystemTime> expire_time = std::nullopt;
  std::optional<Durability> durability = std::nullopt;
  std::optional<SamplingOptions> sampling = std::nullopt;
  bool paused = false;
  std::string request_id = {};
};

struct ListSessionsOptions {
  int32_t page_size = 0;   // 0: the server's default
  std::string page_token;  // token of the previous page
  std::string filter;      // AIP-160
  std::string order_by;    // AIP-132; empty: by name
};

struct SessionPage {
  std::vector<Session> sessions;
  std::string next_page_token;  // empty at the end
};

struct UpdateSessionOptions {
  std::string id;
  std::string etag;  // if not empty: must match the current one, else ABORTED
  // Fields to change: "expire_time", "ttl", "durability", "sampling", "paused"; one
  // that is named here but not set below gets the server's default. Empty: all that are
  // set.
  std::vector<std::string> fields;
  std::optional<std::chrono::milliseconds> ttl = std::nullopt;
  std::optional<SystemTime> expire_time = std::nullopt;
  std::optional<Durability> durability = std::nullopt;
  std::optional<SamplingOptions> sampling = std::nullopt;
  std::optional<bool> paused = std::nullopt;
};

struct DeleteSessionOptions {
  std::string id;
  std::string etag = {};       // as in UpdateSessionOptions
  bool allow_missing = false;  // an absent session is no error
};

// What is not set is inherited from the parent.
struct ForkSessionOptions {
  std::string parent;
  std::string id;
  std::optional<int64_t> position = std::nullopt;  // tokens to take over; absent: all
  std::optional<std::chrono::milliseconds> ttl = std::nullopt;
  std::optional<SystemTime> expire_time = std::nullopt;
  std::optional<Durability> durability = std::nullopt;
  std::optional<SamplingOptions> sampling = std::nullopt;
  std::string request_id = {};
};

// Set either position or checkpoint.
struct RewindSessionOptions {
  std::string id;
  std::optional<int64_t> position = std::nullopt;  // tokens to keep
  std::string checkpoint = {};
  std::string etag = {};  // as in UpdateSessionOptions
};

struct CheckpointSessionOptions {
  std::string id;          // id of the session
  std::string checkpoint;  // empty: drawn by the server
  std::string request_id = {};
};

// What is not set is inherited from the snapshot.
struct ImportSessionOptions {
  std::string id;
  std::string model = {};
  int64_t size_bytes = 0;  // size of the whole snapshot; at least 1
  std::optional<std::chrono::milliseconds> ttl = std::nullopt;
  std::optional<SystemTime> expire_time = std::nullopt;
  std::optional<Durability> durability = std::nullopt;
  std::optional<SamplingOptions> sampling = std::nullopt;
  std::string request_id = {};
  // Rewinds the source to its begin, so that the call can be repeated; null: no
  // retries.
  std::function<absl::Status()> rewind = nullptr;
};

// Receives the next part of a snapshot, at most 4 MiB.
using SnapshotSink = std::function<absl::Status(std::string_view part)>;
// Reads 1 to `most` bytes of a snapshot into `to` and returns their number; 0 at its
// end.
using SnapshotSource = std::function<absl::StatusOr<size_t>(char* to, size_t most)>;

struct ExportedSession {
  Session session;
  int64_t size_bytes = 0;
};

struct Verification {
  bool stored_form_valid = false;    // lengths, checksums, identities
  std::optional<bool> replay_equal;  // with replay: the same bytes
  int64_t position = 0;              // tokens in the history
  int64_t state_size_bytes = 0;      // compared
  std::string first_difference;      // name of the state entry; empty: none
};

}  // namespace mnemon::client
