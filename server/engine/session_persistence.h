// SPDX-License-Identifier: MIT
// Sessions in a store: which of them are there, what becomes of them when the server
// starts, when their snapshots are written, and how a history and a state come back.
// A history that is not used leaves memory when that gets short.
//
// In the store a session is its record (stored_session.h), the entries of its journal
// (journal_entry.h), whose sum is its history, and the histories of its checkpoints.
// Snapshots (server/state/snapshot.h) hold states alone: one that is damaged or missing
// is computed again, with the same bits.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/bounded_store.h"
#include "server/engine/engine_context.h"
#include "server/engine/engine_model.h"
#include "server/engine/journal_writer.h"
#include "server/engine/model_runner.h"
#include "server/engine/session.h"
#include "server/engine/session_snapshots.h"
#include "server/engine/store_stats.h"
#include "server/engine/store_survey.h"
#include "server/engine/stored_session.h"
#include "server/state/session_store.h"

namespace mnemon {

// What a start found.
struct Recovery {
  int64_t sessions = 0;  // that go on
  int64_t expired = 0;   // removed
  int64_t foreign = 0;   // of models that are not loaded; they stay as they are
  int64_t damaged = 0;   // of which something is missing; they stay as they are
};

// Safe for concurrent use.
class SessionPersistence {
 public:
  // `context` and `store` outlive it. `models` in the order of the engine. Throws
  // std::system_error when there is no thread.
  SessionPersistence(const EngineContext& context, SessionStore& store,
                     const std::vector<EngineModel>& models);
  ~SessionPersistence();

  // Before anything else but construction: null for a predictor.
  void SetRunners(std::vector<std::shared_ptr<ModelRunner>> runners);
  // Puts all sessions of the store into the directory; their histories stay there until
  // they are used. The errors of SessionStore::Scan.
  absl::StatusOr<Recovery> Recover();

  // A session that no directory knows yet gets its journal. `has_history`: the store
  // needs a base of it.
  void Adopt(const std::shared_ptr<Session>& session, Durability durability,
             bool has_history);
  // OK, or why a durable session cannot be made.
  absl::Status status() const { return writer_.status(); }
  // Why a session with this id is not in the directory but cannot be made either;
  // OK: nothing is against it.
  absl::Status CheckId(const std::string& id) const;

  // Writes a snapshot of the session soon, if there is anything new in it; or the base
  // that it needs. Where memory has run out nothing happens, but that who waits for the
  // base is told.
  void RequestSnapshot(const std::shared_ptr<Session>& session) noexcept;
  // The same of one whose turns follow each other, once it has rested for
  // EngineOptions::snapshot_rest: until then its journal has what is new, and the next
  // turn would make the snapshot an old one. At once where much is new.
  void RequestAtRest(const std::shared_ptr<Session>& session) noexcept;
  // Of all that have changed; waits for them until `deadline`. False: not all are
  // written.
  bool SaveAll(std::chrono::steady_clock::time_point deadline);
  // After a change of its durability: what the store needs of the session and has not,
  // its checkpoints and RequestSnapshot. REQUIRES: their histories are in memory.
  void StoreAnew(const std::shared_ptr<Session>& session) noexcept;
  // The checkpoint is in the store with the next sync of the session's journal. Where
  // memory has run out `on_saved` is told.
  void SaveCheckpoint(const std::shared_ptr<Session>& session,
                      const SessionCheckpoint& checkpoint, OnSynced on_saved);
  // Of a session that the caller holds and has changed: releases it once the store has
  // that; where it refuses it, the change is taken back first.
  void Settle(const std::shared_ptr<Session>& session, WaiterKind kind,
              SessionBefore before, OnSynced on_settled);
  // Of a session that has left the directory: removes it from the store.
  void Delete(const Session& session, OnSynced on_done);

  // One that sleeps and that the store cannot give is from now on as one that was found
  // damaged at the start. False: it does not sleep.
  bool GiveUp(const std::string& id, const absl::Status& damage);
  // Removes one from the store that CheckId says is damaged.
  void DeleteDamaged(const std::string& id, OnSynced on_done);

  // Brings the history of a session into memory, if it is not there: on the calling
  // thread, which reads the store. It stays there, with those of checkpoints that were
  // loaded, as long as a copy of the pointer exists. `patient`: waits for memory, as
  // MakeRoom. DATA_LOSS, SESSION_DAMAGED; MEMORY_LIMIT; the store's.
  absl::StatusOr<std::shared_ptr<Session>> Use(const std::shared_ptr<Session>& session,
                                               bool patient = true);
  // The same with those of its checkpoints, as far as they can be read.
  absl::StatusOr<std::shared_ptr<Session>> UseWithCheckpoints(
      const std::shared_ptr<Session>& session);
  // The same of a checkpoint. REQUIRES: the owner is in use.
  absl::Status LoadCheckpoint(const Session& owner,
                              const SessionCheckpoint& checkpoint);
  // Memory is short: histories that are in the store and not in use leave it, of about
  // so many bytes; first those of sessions without a state in memory, then others, with
  // their states, the longest unused first. False: there are none, not even in use.
  // True: who waits for memory is woken once some have left.
  bool GiveUpHistories(int64_t bytes);
  // A call has ended, or its history grows: where little memory is left some is made.
  // Needs none.
  void KeepMemoryFree() noexcept;
  // Whose memory has run out: that of sessions without their histories, or of both.
  enum class Short { kSessions, kResting };
  // Calls `fits` until it returns true, while others give memory up; waits for that, on
  // the calling thread, kPatience at most. False: it does not fit, with `bytes` more.
  // Not from the threads that sweep: those of the runners, the writer, the snapshots.
  bool MakeRoom(int64_t bytes, Short of, const std::function<bool()>& fits);
  static constexpr std::chrono::milliseconds kPatience{1000};

  // Whether Restore may bring a state that the session has lost.
  bool CanRestore(const Session& session) const;
  // Brings the state back, where it can; `next` is called on some thread in any case.
  // REQUIRES: the caller holds the session.
  void Restore(const std::shared_ptr<Session>& session, std::function<void()> next);
  void Restore(const Session& owner, const SessionCheckpoint& checkpoint,
               std::function<void()> next);

  // No snapshot is begun any more, and nothing is read from the store.
  void Stop();
  // What is queued for the store is written.
  void StopWriting() { writer_.Stop(); }

  PersistenceStats stats() const;

 private:
  // A session while Recover runs.
  struct Found {
    StoredSession stored;
    SessionJournal::Stored journal;
    size_t model = 0;
    int64_t tokens = 0;
  };

  std::optional<std::string> RecordOf(const SessionJournal& journal) const;
  void OnLost(const SessionJournal& journal, const absl::Status& status);
  void OnDeleted(const SessionJournal& journal);
  SnapshotPlace PlaceOf(size_t model) const;
  std::shared_ptr<Session> MakeCopy(size_t model) const;

  // Requests those of sessions that have rested.
  void RequestRested();
  // Snapshots that are wanted, one after the other.
  void StartNext();
  void PostNext() noexcept;
  void SaveNow(const std::shared_ptr<Session>& session);
  // Nullopt: it was not kept; counted.
  std::optional<StoredSnapshot> PutSnapshot(const EncodedSnapshot& snapshot);
  void KeepCheckpoint(SessionJournal& journal, const SessionCheckpoint& checkpoint,
                      EncodedSnapshot& snapshot);
  void KeepSnapshot(SessionJournal& journal, EncodedSnapshot snapshot,
                    uint64_t sequence, bool base);
  void SaveDone();

  // session_recovery.cc.
  // SESSION_DAMAGED; FAILED_PRECONDITION, MODEL_FINGERPRINT.
  absl::StatusOr<Found> FoundOf(const std::string& id, SurveyedSession session) const;
  void InsertRecovered(std::map<std::string, Found> sessions, Recovery& recovery);
  // A session that no directory knows. Leaves `found` without its journal.
  std::shared_ptr<Session> MakeFound(const std::string& id, Found& found);
  std::optional<std::chrono::steady_clock::time_point> ExpiryOf(
      const StoredSession& stored) const;
  // Of SessionDirectory::Waker.
  absl::StatusOr<std::shared_ptr<Session>> ReadSession(const std::string& id);
  // Its newest call, which may cut its history.
  void RecoverCall(Session& session, Found& found);
  absl::StatusOr<std::vector<int32_t>> ReadHistory(const Session& session);
  absl::Status CheckTokens(const std::vector<int32_t>& tokens, size_t model) const;
  absl::Status SetHistory(Session& session, const std::vector<int32_t>& tokens);
  std::mutex& LoadingOf(const Session& session);
  // Whether so much more of what rests fits just now.
  bool HasRoom(int64_t bytes) const;
  // MEMORY_LIMIT where it does not fit just now.
  absl::Status LoadHistory(Session& session);
  absl::Status LoadHistory(const Session& owner, const SessionCheckpoint& checkpoint);
  void RestoreFrom(const std::shared_ptr<Session>& session, const std::string& id,
                   std::function<absl::StatusOr<std::string>()> read,
                   std::function<void(absl::Status)> next);

  // session_unloading.cc.
  // Whether sessions at rest have taken nearly all that they may.
  bool RestingShort() const;
  // Whether sessions, without their histories, have taken so much of what they may that
  // those which are not used are to sleep; and some do not.
  bool SessionsShort() const;
  // For those that have waited for the next sweep.
  void SweepAgain();
  struct Sweep;
  void FindUnused(Sweep& sweep) const;
  void UnloadSome(const std::shared_ptr<Sweep>& sweep);
  // Once it has no state.
  void UnloadWritten(const std::shared_ptr<Session>& session,
                     const std::shared_ptr<Sweep>& sweep);
  // Of those that are written together.
  void OneDone(const std::shared_ptr<Sweep>& sweep);
  void Count(Sweep& sweep, int64_t freed);
  // On the writer's thread. The bytes that left memory.
  int64_t Unload(Session& session);
  // Sessions whose histories are gone.
  void SleepSome(const std::shared_ptr<Sweep>& sweep);
  // Once nothing works on it any more.
  void EndSweep(const Sweep& sweep);

  // Why a session of the store is not in the directory: what of it is damaged; or null,
  // and the model that it belongs to, one of other_models_.
  struct Unusable {
    std::shared_ptr<const absl::Status> damage;
    const std::string* model = nullptr;
  };
  bool KeepUnusableLocked(const std::string& id, Unusable why);
  void DropUnusableLocked(const std::string& id);

  const EngineContext& context_;
  BoundedStore store_;
  const std::vector<EngineModel> models_;
  std::vector<std::shared_ptr<ModelRunner>> runners_;  // constant after SetRunners

  // One history is read at a time by each of them, by the session's id.
  std::array<std::mutex, 16> loading_;

  mutable std::mutex mutex_;                            // guards all below
  std::unordered_map<std::string, Unusable> unusable_;  // by id
  ByteCharge unusable_bytes_;
  std::set<std::string> other_models_;  // names
  std::condition_variable saved_;
  std::deque<std::shared_ptr<Session>> wanted_;
  // Those of RequestAtRest, the longest at rest first, and where each of them is.
  struct Resting {
    std::shared_ptr<Session> session;
    std::chrono::steady_clock::time_point until;
  };
  std::list<Resting> resting_;
  std::unordered_map<const Session*, std::list<Resting>::iterator> resting_at_;
  bool rest_ends_ = false;  // RequestRested is due
  bool saving_ = false;
  bool stopping_ = false;
  bool sweeping_ = false;
  // The last sweep has found too little: until then there is none; and whether some
  // that were in use may leave later.
  std::chrono::steady_clock::time_point next_sweep_;
  bool more_later_ = true;
  bool sweep_due_ = false;  // one is to follow, for those that wait
  std::condition_variable freed_;
  PersistenceStats stats_;  // but for `healthy` and `journal`

  JournalWriter writer_;  // last: its thread uses the others
};

}  // namespace mnemon
