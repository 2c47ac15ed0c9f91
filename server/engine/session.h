// SPDX-License-Identifier: MIT
// A session as the engine keeps it.
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

#include "base/heap_bytes.h"
#include "server/engine/call_record.h"
#include "server/engine/callback_threads.h"
#include "server/engine/engine_memory.h"
#include "server/engine/random.h"
#include "server/engine/request.h"
#include "server/engine/session_journal.h"
#include "server/engine/shared_answer.h"
#include "server/engine/slot_state.h"
#include "server/engine/token_history.h"

namespace mnemon {

struct Call;
struct Session;
using SessionList = std::list<std::shared_ptr<Session>>;

// Sessions at rest by the time when they expire, the first one first.
using ExpirySet = std::set<std::pair<std::chrono::steady_clock::time_point, Session*>>;

// What a session can be rewound to: its history and state at one time.
struct SessionCheckpoint {
  std::string id;
  std::string request_id;  // may be empty
  std::chrono::system_clock::time_point create_time;
  std::shared_ptr<Session> at;  // in no directory
  uint64_t update = 0;          // of the session, that added it, and the one before
  uint64_t update_before = 0;
  // Its way into the store, given by the call that added it; null: it came from there.
  std::shared_ptr<SharedAnswer> stored = nullptr;
};

// What a session was before a change which the store does not have yet; it stays held
// until that has it, or refuses it and the change is taken back.
struct SessionBefore {
  int64_t tokens = 0;  // of its history
  // That history, with the state where it was kept, pinned; null: tokens were only
  // appended.
  std::shared_ptr<Session> copy;
  uint64_t version = 0;  // TokenHistory::version
  std::shared_ptr<const CallRecord> newest_call;
  std::optional<int64_t> scored_from;  // of a change that has forgotten it
};

// Of a stateless call too: then the id is empty and it is in no directory. Shared,
// because a session may be deleted while a call runs on it.
//
// Nodes of lists that it will be on are made with it, so that a runner needs no memory
// to put it there.
struct Session : DestroyedLater {
  // `memory`, which may be null, counts what it takes; `tokens`: the kind of those of
  // its history.
  Session(std::string its_id, size_t its_model, const HistoryObserver* observer,
          const std::shared_ptr<EngineMemory>& memory = nullptr,
          ByteAccount EngineMemory::*tokens = &EngineMemory::histories)
      : id(std::move(its_id)),
        model(its_model),
        charge(ChargeOf(memory, &EngineMemory::sessions)),
        history(id, observer, ChargeOf(memory, tokens),
                memory ? TokenHistory::WidthFor(memory->vocabs.at(its_model))
                       : TokenHistory::Width::k4) {}
  // Of memory that a named session takes, beside history and state, and what
  // SessionDirectory adds for texts, settings and its journal.
  static const int64_t kBytes;
  // That a checkpoint takes likewise, with what the journal keeps of it.
  static const int64_t kCheckpointBytes;

  // Constant after creation.
  uint64_t nonce = RandomNumber();  // differs where an id is used again
  const std::string id;
  const size_t model;  // index among the engine's models
  std::chrono::system_clock::time_point create_time;
  std::string parent;        // id of the session that it was forked from, or empty
  bool rebuilt = false;      // its state was of other numerics and is computed again
  std::string request_id;    // of the call that made it; may be empty
  std::string request_text;  // that call but for the id: what a repetition must be;
                             // empty without a request_id
  bool drawn_id = false;     // by the engine
  bool hidden = false;       // not listed
  ByteCharge charge;         // of a named one; in a directory guarded by its mutex
  // Of a named one where the engine has a store, else null.
  std::shared_ptr<SessionJournal> journal;

  // Guarded by the directory's mutex.
  bool held = false;  // by a call, which alone may use and change the history
  std::list<std::string> holder_request_id;  // none or one
  uint64_t resumes = 0;         // calls that have begun to resume the newest one
  std::weak_ptr<Call> resumer;  // of them, the one that holds it
  CallbackList resumer_turn;    // of the newest of them, while it waits for its turn
  bool deleted = false;         // no longer in the directory
  // Request ids of its newest calls, at most kRequestIds.
  static constexpr size_t kRequestIds = 64;
  std::list<std::string> request_ids;
  // Of the newest call, where that can be resumed; changed by SetNewestCall alone.
  std::shared_ptr<const CallRecord> newest_call;
  // Where its newest call, the last of request_ids, began, if that scored.
  std::optional<int64_t> scored_from;
  // The same of the call that holds it, once that has joined its tokens.
  std::optional<int64_t> joined_from;
  std::chrono::system_clock::time_point last_use_time;
  uint64_t updates = 0;        // changes of what is guarded here, for the etag
  uint64_t newest_update = 0;  // of those that were taken back, too
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<std::chrono::steady_clock::time_point> expires_at;  // used or not
  std::shared_ptr<const SessionSampling> sampling;                  // null: none
  bool paused = false;
  // What the changes that the store does not have yet would leave when it refuses them,
  // the oldest first.
  struct Undo {
    uint64_t update = 0;  // this change
    uint64_t updates = 0;
    std::optional<std::chrono::milliseconds> ttl;
    std::optional<std::chrono::steady_clock::time_point> expires_at, expiry;
    std::shared_ptr<const SessionSampling> sampling;
    bool paused = false;
    Durability durability = Durability::kNone;
  };
  std::list<Undo> undos;
  static constexpr size_t kCheckpoints = 64;  // at most
  std::vector<SessionCheckpoint> checkpoints;
  // While it is in the set of those that expire: at rest with a ttl, or `expires_at`.
  std::optional<std::chrono::steady_clock::time_point> expiry;
  ExpirySet::node_type expiry_node;  // likewise: empty

  // Any thread reads them; written by the model runner.
  std::atomic<bool> running = false;  // the call that holds it was admitted
  std::atomic<int64_t> state_bytes = 0;
  std::atomic<int64_t> image_bytes = 0;  // of a state that left a device's memory

  // Set by any thread: it was removed from the directory.
  std::atomic<bool> forgotten = false;

  // Whether the history is in memory; else it is in the store, with stored_tokens, and
  // nobody uses it. Of a checkpoint stored_tokens is always right.
  std::atomic<bool> resident = true;
  int64_t stored_tokens = 0;  // guarded by the directory's mutex
  // What keeps it in memory: SessionPersistence::Use.
  std::atomic<int64_t> history_uses = 0;

  // Changed by the holder alone.
  TokenHistory history;

  // Owned by the model runner.
  SlotState state;
  std::chrono::steady_clock::time_point turn_end;  // of its last turn
  Call* call = nullptr;  // that runs on it or whose end was not taken
  // Whether it is on the runner's list of sessions at rest that hold state, or on that
  // of those with an image, and its node there, or for there.
  bool resting = false;
  bool has_left = false;
  SessionList resting_node = SessionList(1);
  SessionList::iterator resting_at = resting_node.begin();
  // For the runner's list of removed sessions; guarded by the runner's mutex.
  SessionList forgotten_node = SessionList(1);
};

// With its nodes in the directory and in lists, and the list of the pieces of a short
// history.
inline constexpr int64_t Session::kBytes =
    SharedHeapBytes(sizeof(Session)) + 2 * HeapBytes(4 * sizeof(void*)) +
    HeapBytes(4 * sizeof(void*) + sizeof(ExpirySet::value_type)) +
    HeapBytes(4 * sizeof(void*) +
              sizeof(std::pair<std::string_view, std::shared_ptr<Session>>)) +
    HeapBytes(sizeof(void*));

// In vectors that grow by doubling, and with ids of usual length in both.
inline constexpr int64_t Session::kCheckpointBytes =
    SharedHeapBytes(sizeof(Session)) + 2 * HeapBytes(4 * sizeof(void*)) +
    HeapBytes(sizeof(void*)) + 2 * sizeof(SessionCheckpoint) +
    2 * sizeof(StoredCheckpoint) + SharedHeapBytes(sizeof(SharedAnswer)) +
    5 * HeapBytes(36);

}  // namespace mnemon
