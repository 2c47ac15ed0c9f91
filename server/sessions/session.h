// SPDX-License-Identifier: MIT
// A session in memory, in parts by owner: the directory, the holder, and the runner of
// its model.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/memory/heap_bytes.h"
#include "server/requests/engine_memory.h"
#include "server/requests/random.h"
#include "server/requests/request.h"
#include "server/residency/resident_state.h"
#include "server/sessions/call_record.h"
#include "server/sessions/stored_session.h"
#include "server/sessions/token_history.h"
#include "server/waiting/callback_threads.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

struct Call;
struct Session;
class SessionJournal;
using SessionList = std::list<std::shared_ptr<Session>>;

// Sessions ordered by the time when they expire.
using ExpirySet = std::set<std::pair<std::chrono::steady_clock::time_point, Session*>>;

// A point that a session can be rewound to.
struct SessionCheckpoint {
  std::string id;
  std::string request_id;  // may be empty
  std::chrono::system_clock::time_point create_time;
  std::shared_ptr<Session> at;  // history and state; in no directory
  uint64_t update = 0;          // SessionEntry::updates after it was added
  uint64_t update_before = 0;   // and before
  // Outcome of storing it; null: read from the store.
  std::shared_ptr<SharedAnswer> stored = nullptr;
};

// A session before a change, which is undone if the store refuses it. The session stays
// held until then.
struct SessionBefore {
  int64_t tokens = 0;  // in its history
  // With its state if that was kept, pinned; null: tokens were only appended.
  std::shared_ptr<Session> copy;
  uint64_t version = 0;  // TokenHistory::version
  std::shared_ptr<const CallRecord> newest_call;
  std::optional<int64_t> scored_from;  // if the change has forgotten it
};

// When a session expires: `ttl` after its last use, or at `expires_at`, used or not.
struct Expiration {
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<std::chrono::steady_clock::time_point> expires_at;
};

struct SettingsInUse : Expiration {
  std::shared_ptr<const SessionSampling> sampling;  // null: none
  bool paused = false;
};

// The directory's part of a session, guarded by its mutex.
struct SessionEntry : SettingsInUse {
  bool held = false;                         // by a call, which alone uses the history
  std::list<std::string> holder_request_id;  // none or one
  uint64_t resumes = 0;                      // attempts to resume the newest call
  std::weak_ptr<Call> resumer;               // the resuming call that holds the session
  CallbackList resumer_turn;                 // of the newest attempt, while it waits
  bool deleted = false;                      // no longer in the directory
  static constexpr size_t kRequestIds = 64;
  std::list<std::string> request_ids;  // of the newest calls, at most kRequestIds
  // For resuming the newest call; null if it cannot be resumed. Changed by
  // SessionCalls::SetNewestCall only.
  std::shared_ptr<const CallRecord> newest_call;
  // Where the newest call, the last of request_ids, began, if it scored.
  std::optional<int64_t> scored_from;
  // The same for the holder, once its tokens have joined the history.
  std::optional<int64_t> joined_from;
  std::chrono::system_clock::time_point last_use_time;
  uint64_t updates = 0;        // number of changes of this part, for the etag
  uint64_t newest_update = 0;  // the same, including undone changes
  // What was before a change of the settings.
  struct Undo {
    uint64_t update = 0;  // number of the change
    uint64_t updates = 0;
    SettingsInUse settings;
    std::optional<std::chrono::steady_clock::time_point> expiry;
    Durability durability = Durability::kNone;
  };
  std::list<Undo> undos;  // of changes that the store does not have, oldest first
  static constexpr size_t kCheckpoints = 64;  // at most
  std::vector<SessionCheckpoint> checkpoints;
  // While it is in SessionExpiries: at rest with a ttl, or with `expires_at`.
  std::optional<std::chrono::steady_clock::time_point> expiry;
  ExpirySet::node_type expiry_node;  // empty while it is there
};

// The part of a session that the runner of its model owns.
struct SessionInRunner final : ResidentState {
  SessionInRunner(const TokenHistory& its_history, bool has_name)
      : history(its_history), is_named(has_name) {}
  int64_t history_size() const override { return history.size(); }
  bool named() const override { return is_named; }

  const TokenHistory& history;
  const bool is_named;
  std::chrono::steady_clock::time_point turn_end;  // end of its last turn
  Call* call = nullptr;  // runs on it, or its end was not taken yet
  // Whether the holder was admitted. Any thread reads it.
  std::atomic<bool> running = false;
  // Node for the runner's list of removed sessions; guarded by the runner's mutex.
  SessionList forgotten_node = SessionList(1);
};

// Shared ownership, because a session may be deleted while a call runs on it. A
// stateless call has one with an empty id, in no directory. Nodes of the runner's lists
// are allocated with it, so that the runner needs no memory to add it.
struct Session : DestroyedLater {
  // `memory`, which may be null, counts what it takes; `tokens` is the account of its
  // history.
  Session(std::string its_id, size_t its_model,
          const std::shared_ptr<EngineMemory>& memory = nullptr,
          ByteAccount EngineMemory::*tokens = &EngineMemory::histories)
      : id(std::move(its_id)),
        model(its_model),
        charge(ChargeOf(memory, &EngineMemory::sessions)),
        history(ChargeOf(memory, tokens),
                memory ? TokenHistory::WidthFor(memory->vocabs.at(its_model))
                       : TokenHistory::Width::k4),
        in_runner(history, !id.empty()) {}
  // Memory of a named session without history, state, strings, settings and journal.
  static const int64_t kBytes;
  // Memory of a checkpoint, with what the journal keeps of it.
  static const int64_t kCheckpointBytes;

  // Constant after creation.
  uint64_t nonce = RandomNumber();  // tells sessions with the same id apart
  const std::string id;
  const size_t model;  // index among the engine's models
  std::chrono::system_clock::time_point create_time;
  std::string parent;        // id of the session that it was forked from, or empty
  bool rebuilt = false;      // its state had other numerics and is recomputed
  std::string request_id;    // of the call that created it; may be empty
  std::string request_text;  // that call, compared with repetitions; may be empty
  bool drawn_id = false;     // by the engine
  bool hidden = false;       // not listed
  ByteCharge charge;         // of a named one; guarded by the directory's mutex
  // Null for a stateless call and for an engine without a store.
  std::shared_ptr<SessionJournal> journal;

  SessionEntry entry;

  // Whether it was removed from the directory. Set by any thread.
  std::atomic<bool> forgotten = false;
  // Whether the history is in memory; else it is in the store, has stored_tokens, and
  // nobody uses it. For a checkpoint stored_tokens is always valid.
  std::atomic<bool> resident = true;
  int64_t stored_tokens = 0;  // guarded by the directory's mutex
  // Users that keep it in memory: SessionLoader::Use.
  std::atomic<int64_t> history_uses = 0;

  TokenHistory history;  // changed by the holder alone
  SessionInRunner in_runner;
};

// With the nodes in the directory and in lists, and the piece list of a short history.
inline constexpr int64_t Session::kBytes =
    SharedHeapBytes(sizeof(Session)) + 2 * HeapBytes(4 * sizeof(void*)) +
    HeapBytes(4 * sizeof(void*) + sizeof(ExpirySet::value_type)) +
    HeapBytes(4 * sizeof(void*) +
              sizeof(std::pair<std::string_view, std::shared_ptr<Session>>)) +
    HeapBytes(sizeof(void*));

// In vectors that grow by doubling, with ids of usual length.
inline constexpr int64_t Session::kCheckpointBytes =
    SharedHeapBytes(sizeof(Session)) + 2 * HeapBytes(4 * sizeof(void*)) +
    HeapBytes(sizeof(void*)) + 2 * sizeof(SessionCheckpoint) +
    2 * sizeof(StoredCheckpoint) + SharedHeapBytes(sizeof(SharedAnswer)) +
    5 * HeapBytes(36);

// Memory of sessions without history and state, as the allocator counts it: a new
// session, and one with all that it remembers.
int64_t FreshBytes(const Session& session);
int64_t WholeBytes(const Session& session);
// Parts of WholeBytes: a remembered request id, the record of the newest call without
// its prompt (null: 0), sampling parameters (of a session: 0 if it has none).
int64_t RememberedBytes(const std::string& request_id);
int64_t RecordBytes(const CallRecord* record);
int64_t BytesOf(const SessionSampling& sampling);
int64_t SamplingBytes(const Session& session);

}  // namespace mnemon
