// SPDX-License-Identifier: MIT
#include "server/durability/stored_journal.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/memory/heap_bytes.h"
#include "base/out_of_memory.h"
#include "server/durability/journal_writer.h"
#include "server/requests/engine_errors.h"
#include "server/sessions/session.h"

namespace mnemon {
namespace {

// Moves `waiter` to the end of a list. After an error whoever has the waiter answers,
// with no lock held.
absl::Status Enlist(std::vector<OnSynced>& list, OnSynced& waiter) try {
  list.emplace_back();
  list.back() = std::exchange(waiter, nullptr);
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemoryError();
}

}  // namespace

StoredJournal::StoredJournal(JournalWriter& writer, std::string its_id,
                             std::weak_ptr<Session> its_session, Durability durability,
                             Stored stored, bool needs_base)
    : id(std::move(its_id)),
      session(std::move(its_session)),
      writer_(writer),
      standing_{
          .durability = durability,
          .state = needs_base ? State::kNeedsBase : State::kReady,
          .in_store = durability != Durability::kNone || !stored.snapshots.empty()},
      entries_(stored),
      snapshots_(std::move(stored.snapshots), std::move(stored.checkpoints)) {}

StoredJournal::~StoredJournal() {
  for (auto* const waiters : {&gathered_.waiters, &deleters_}) {
    for (const OnSynced& waiter : *waiters) {
      waiter(CatchOutOfMemory({}, [this] { return engine_errors::NotFound(id); }));
    }
  }
}

bool StoredJournal::SetDurability(Durability durability) {
  {
    std::lock_guard lock(mutex_);
    if (standing_.durability == durability || standing_.state == State::kDeleted)
      return false;
    if (!standing_.durable()) {
      gathered_.DropSnapshots(snapshots_);
      standing_.NeedBase();
      gathered_.DropHistory();
    }
    standing_.durability = durability;
    gathered_.record = true;
    if (durability == Durability::kNone) {
      standing_.deletion.due = true;
      standing_.deletion.unstoring = standing_.in_store;
      gathered_.DropHistory();
    }
  }
  Queue();
  return true;
}

bool StoredJournal::Restore(Durability before) {
  bool base = false;
  {
    std::lock_guard lock(mutex_);
    if (standing_.state == State::kDeleted) return false;
    if (standing_.durability != before && before == Durability::kNone) {
      // What the store may have got goes: once it is well, where a write has failed.
      standing_.deletion.due = standing_.state != State::kFailed;
      standing_.deletion.unstoring = false;
      gathered_.DropHistory();
      gathered_.checkpoints.clear();
    } else if (standing_.durability != before && !standing_.durable()) {
      const bool taken = !std::exchange(standing_.deletion.due, false);
      // The writer asks for the base of what has failed.
      base = standing_.state != State::kFailed;
      // Nothing is left in the store then.
      if (base && taken) gathered_.DropSnapshots(snapshots_);
      // What has changed since then is in no entry.
      if (base) {
        standing_.NeedBase();
        gathered_.DropHistory();
      }
      standing_.deletion.unstoring = false;
    }
    standing_.durability = before;
    gathered_.record = before != Durability::kNone;
  }
  Queue();
  return base;
}

absl::Status StoredJournal::status() const {
  {
    std::lock_guard lock(mutex_);
    if (!standing_.durable()) return absl::OkStatus();
    if (standing_.state == State::kFailed) return standing_.failure;
  }
  return writer_.status();
}

void StoredJournal::OnChange(const TokenHistory& history, int64_t kept,
                             int64_t size) noexcept {
  {
    std::lock_guard lock(mutex_);
    ++changes_;
    gathered_.history_size = size;
    snapshots_.OnCut(kept);
    if (!standing_.Gathers()) return;
    try {
      gathered_.AddChange(history, kept, size);
    } catch (const std::bad_alloc&) {
      // As after a write that was lost: a base holds all of it.
      gathered_.DropHistory();
      standing_.Fail(OutOfMemoryError());
    }
  }
  Queue();
}

void StoredJournal::Attach(std::shared_ptr<TokenStream> stream) {
  {
    std::lock_guard lock(mutex_);
    gathered_.stream = std::move(stream);
    gathered_.finish = false;
    if (gathered_.stream == nullptr) return;
    stream = standing_.Waits() ? nullptr : gathered_.stream;
  }
  if (stream == nullptr) return Queue();
  // It was opened when its tokens were to wait for the store.
  writer_.ReleaseAll(std::move(stream));
}

void StoredJournal::EndTurn() noexcept {
  std::shared_ptr<TokenStream> ended;
  {
    std::lock_guard lock(mutex_);
    if (gathered_.stream == nullptr) return;
    if (!standing_.Waits()) {
      ended = std::move(gathered_.stream);
      return;
    }
    gathered_.finish = true;
  }
  Queue();
}

void StoredJournal::TouchRecord() noexcept {
  {
    std::lock_guard lock(mutex_);
    ++changes_;
    if (!standing_.durable()) return;
    gathered_.record = true;
  }
  Queue();
}

void StoredJournal::Flush(WaiterKind kind, OnSynced on_synced) {
  on_synced.Watch(writer_.waiters(), kind);
  absl::Status status;
  {
    std::lock_guard lock(mutex_);
    status = standing_.End(id);
    if (status.ok() && standing_.Waits()) status = Enlist(gathered_.waiters, on_synced);
  }
  if (on_synced) return on_synced(status);
  Queue();
}

void StoredJournal::Delete(OnSynced on_synced) {
  if (on_synced) on_synced.Watch(writer_.waiters(), WaiterKind::kDelete);
  absl::Status status;
  {
    std::lock_guard lock(mutex_);
    if (standing_.state == State::kFailed) status = standing_.failure;
    if (standing_.state != State::kDeleted && standing_.in_store) {
      standing_.deletion.due = true;
      if (on_synced && status.ok()) status = Enlist(deleters_, on_synced);
    }
    standing_.state = State::kDeleted;
    gathered_.DropSnapshots(snapshots_);
    gathered_.DropHistory();
  }
  if (on_synced) on_synced(status);
  Queue();
}

bool StoredJournal::TryDelete(std::optional<uint64_t> changes, OnSynced on_synced) {
  on_synced.Watch(writer_.waiters(), WaiterKind::kDelete);
  absl::Status status;
  bool changed = false;
  {
    std::lock_guard lock(mutex_);
    changed = changes && *changes != changes_;
    // From here on no change is acknowledged before the outcome is known.
    status = changed ? absl::AbortedError("changed") : standing_.End(id);
    if (status.ok()) status = Enlist(deleters_, on_synced);
    if (status.ok()) standing_.deletion.due = standing_.deletion.tried = true;
  }
  if (changed) {
    static_cast<void>(on_synced.Dismiss());
    return false;
  }
  if (on_synced) {
    on_synced(status);
  } else {
    Queue();
  }
  return true;
}

uint64_t StoredJournal::BeginSnapshot(bool base) {
  std::lock_guard lock(mutex_);
  snapshots_.BeginCopy();
  if (base && standing_.state == State::kNeedsBase) {
    gathered_.DropHistory();
    standing_.copies_base = true;
    // The base is an entry itself.
    entries_.sequence = std::max<uint64_t>(entries_.sequence, 1);
  }
  return entries_.sequence;
}

bool StoredJournal::PutSnapshot(bool base, uint64_t sequence,
                                std::vector<int32_t> history,
                                std::optional<StoredSnapshot> snapshot) {
  {
    std::lock_guard lock(mutex_);
    const bool wanted =
        base ? standing_.state == State::kNeedsBase && standing_.copies_base
             : standing_.state == State::kReady;
    if (!wanted || !standing_.durable()) return false;
    snapshots_.DropOldest(base ? 0 : kSnapshots - 1, gathered_.dropped);
    const auto tokens = static_cast<int64_t>(history.size());
    if (snapshot) snapshots_.Add(*std::move(snapshot), tokens);
    const bool many = entries_.entries >= kFewEntries &&
                      entries_.entries + entries_.tokens >= entries_.folded;
    if (base || (many && sequence > 0)) {
      gathered_.fold = {.sequence = sequence, .history = std::move(history)};
      entries_ = {.sequence = entries_.sequence, .folded = tokens};
    }
    gathered_.record = true;
    if (base) {
      standing_.copies_base = false;
      standing_.state = State::kReady;
    }
  }
  Queue();
  return true;
}

void StoredJournal::BaseFailed(const absl::Status& status) {
  std::vector<OnSynced> waiters;
  {
    std::lock_guard lock(mutex_);
    if (standing_.state != State::kNeedsBase) return;
    standing_.copies_base = false;
    standing_.Fail(status);
    gathered_.DropHistory();
    waiters.swap(gathered_.waiters);
  }
  for (const OnSynced& waiter : waiters) waiter(status);
  Queue();
}

bool StoredJournal::PutCheckpoint(StoredCheckpoint checkpoint,
                                  std::vector<int32_t> history) {
  {
    std::lock_guard lock(mutex_);
    if (!standing_.durable() || standing_.state == State::kDeleted ||
        snapshots_.FindCheckpoint(checkpoint.id) != nullptr) {
      return false;
    }
    snapshots_.ReserveCheckpoint();
    gathered_.checkpoints.push_back(
        {.id = checkpoint.id, .tokens = std::move(history)});
    snapshots_.AddCheckpoint(std::move(checkpoint));
    gathered_.record = true;
  }
  Queue();
  return true;
}

void StoredJournal::DropCheckpoint(const std::string& checkpoint) {
  {
    std::lock_guard lock(mutex_);
    if (snapshots_.FindCheckpoint(checkpoint) == nullptr) return;
    std::vector<std::string>& dropped = gathered_.dropped_checkpoints;
    dropped.reserve(dropped.size() + 1);
    std::string dropped_id = checkpoint;
    snapshots_.DropCheckpoint(checkpoint, gathered_.dropped);
    dropped.push_back(std::move(dropped_id));
    std::erase_if(gathered_.checkpoints,
                  [&](const auto& history) { return history.id == checkpoint; });
    gathered_.record = true;
  }
  Queue();
}

std::optional<StoredSnapshot> StoredJournal::Usable(int64_t tokens) const {
  std::lock_guard lock(mutex_);
  return !standing_.durable() ? std::nullopt : snapshots_.Usable(tokens);
}

bool StoredJournal::AllStored() const {
  std::lock_guard lock(mutex_);
  return standing_.state == State::kReady && standing_.durable() &&
         !standing_.deletion.due && !standing_.deletion.tried && !gathered_.changed &&
         gathered_.fold.sequence == 0 && gathered_.checkpoints.empty() &&
         gathered_.waiters.empty();
}

bool StoredJournal::IsQuiet() const {
  if (in_writer.unsynced || wanted_ || !AllStored()) return false;
  std::lock_guard lock(mutex_);
  return !gathered_.record;
}

bool StoredJournal::HasCheckpoint(const std::string& checkpoint) const {
  std::lock_guard lock(mutex_);
  return standing_.durable() && snapshots_.FindCheckpoint(checkpoint) != nullptr;
}

std::string StoredJournal::SnapshotOfCheckpoint(const std::string& checkpoint) const {
  std::lock_guard lock(mutex_);
  const StoredCheckpoint* const found = snapshots_.FindCheckpoint(checkpoint);
  return found == nullptr ? "" : found->snapshot.name;
}

StoredJournal::Stored StoredJournal::stored() const {
  std::lock_guard lock(mutex_);
  return {entries_, snapshots_.List(), snapshots_.checkpoints()};
}

bool StoredJournal::leaves_store() const {
  std::lock_guard lock(mutex_);
  return standing_.state == State::kDeleted || standing_.deletion.tried ||
         standing_.deletion.in_doubt;
}

void StoredJournal::Forget(const std::string& snapshot) {
  {
    std::lock_guard lock(mutex_);
    if (!snapshots_.Remove(snapshot)) return;
    gathered_.dropped.push_back(snapshot);
    gathered_.record = standing_.durable();
  }
  Queue();
}

void StoredJournal::Queue() noexcept { writer_.Queue(shared_from_this()); }

TakenChanges StoredJournal::Take() {
  TakenChanges taken;
  std::vector<int32_t> empty;
  // As many as a stream holds back: what usually comes between two writes.
  empty.reserve(TokenStream::kCapacity);
  std::lock_guard lock(mutex_);
  // Before anything changes: it takes memory.
  taken.refusal = standing_.End(id);
  if (standing_.deletion.due) {
    if (standing_.TakeDeletion(taken, gathered_, deleters_)) {
      entries_ = {.sequence = entries_.sequence};
    }
    return taken;
  }
  if (std::exchange(standing_.unreported, false)) taken.failure = standing_.failure;
  if (!taken.refusal.ok()) {
    taken.refused.swap(gathered_.waiters);
    return taken;
  }
  if (!standing_.durable()) {
    // What its waiters wait for is done.
    taken.waiters.swap(gathered_.waiters);
    taken.anything = !taken.waiters.empty();
    return taken;
  }
  if (standing_.state != State::kReady) return taken;
  if (gathered_.record) snapshots_.ListUnwritten(taken.snapshots);
  gathered_.Take(taken, std::move(empty), entries_.sequence);
  if (taken.sequence != 0) {
    ++entries_.entries;
    entries_.tokens += static_cast<int64_t>(taken.entry.tokens.size());
  }
  const bool writes = taken.sequence != 0 || taken.record;
  taken.sync = taken.finish || !taken.waiters.empty() ||
               (standing_.durability == Durability::kAlways && writes);
  taken.anything = writes || taken.sync || taken.stream != nullptr ||
                   taken.fold.sequence != 0 || !taken.checkpoints.empty();
  return taken;
}

void StoredJournal::Written(TakenChanges& taken) {
  if (!taken.snapshots.empty()) {
    std::lock_guard lock(mutex_);
    snapshots_.SetWritten(taken.snapshots);
  }
  std::vector<OnSynced> gone;
  std::shared_ptr<TokenStream> stream;
  absl::Status deleted;
  bool tried = false;      // whether those of TryDelete wait for it,
  bool succeeded = false;  // and nothing else has deleted it before
  if (taken.deleted) {
    std::lock_guard lock(mutex_);
    tried = std::exchange(standing_.deletion.taken, false);
    if (tried && standing_.state != State::kDeleted) {
      succeeded = true;
      standing_.deletion.tried = false;
      standing_.state = State::kDeleted;
      gathered_.DropHistory();
    }
    standing_.in_store = standing_.state != State::kDeleted && standing_.durable();
    if (!standing_.in_store) {
      standing_.deletion.unstoring = false;
      stream = gathered_.finish ? std::move(gathered_.stream) : gathered_.stream;
      gathered_.DropSnapshots(snapshots_);
      taken.dropped.insert(taken.dropped.end(), gathered_.dropped.begin(),
                           gathered_.dropped.end());
      gathered_.dropped.clear();
    }
    deleted = CatchOutOfMemory({}, [this] { return standing_.End(id); });
    if (!deleted.ok()) gone.swap(gathered_.waiters);
  }
  if (stream != nullptr) writer_.ReleaseAll(std::move(stream));
  if (succeeded) writer_.OnDeleted(*this);
  for (const OnSynced& waiter : taken.waiters) {
    // One of them has deleted it.
    waiter(!tried || std::exchange(succeeded, false) ? absl::OkStatus() : deleted);
  }
  for (const OnSynced& waiter : gone) waiter(deleted);
}

void StoredJournal::Lost(const absl::Status& status, TakenChanges& taken) {
  const std::shared_ptr<Session> kept = session.lock();
  std::vector<OnSynced> waiters, deleters;
  {
    std::lock_guard lock(mutex_);
    waiters.swap(gathered_.waiters);
    deleters.swap(deleters_);
    if (std::exchange(standing_.deletion.tried, false) &&
        standing_.state != State::kDeleted) {
      standing_.deletion.due = false;
      standing_.deletion.in_doubt = standing_.deletion.taken;
    }
    standing_.deletion.taken = false;
    standing_.copies_base = false;
    // Where memory has run out their files stay until the next start.
    static_cast<void>(CatchOutOfMemory({}, [&] {
      std::ranges::move(taken.dropped, std::back_inserter(gathered_.dropped));
      std::ranges::move(taken.dropped_checkpoints,
                        std::back_inserter(gathered_.dropped_checkpoints));
      return absl::OkStatus();
    }));
    if (kept != nullptr && !kept->resident && standing_.state == State::kReady) {
      // What is stored is all of its history. Its record is written again.
      gathered_.record = true;
    } else {
      gathered_.DropHistory();
      gathered_.checkpoints.clear();
      if (standing_.state != State::kDeleted) standing_.state = State::kFailed;
      standing_.failure = status;
    }
  }
  for (const OnSynced& waiter : waiters) waiter(status);
  for (const OnSynced& deleter : deleters) deleter(status);
}

bool StoredJournal::Recover() {
  std::lock_guard lock(mutex_);
  standing_.failure = absl::OkStatus();
  if (standing_.state == State::kDeleted || !standing_.durable()) {
    standing_.deletion.due = standing_.in_store;
    return false;
  }
  if (standing_.state != State::kFailed) return false;
  standing_.state = State::kNeedsBase;
  return true;
}

bool StoredJournal::TakeDoubt() {
  const std::shared_ptr<Session> kept = session.lock();
  std::lock_guard lock(mutex_);
  return std::exchange(standing_.deletion.in_doubt, false) && kept != nullptr &&
         !kept->resident;
}

int64_t StoredJournal::bytes() const {
  // With what is reserved for tokens on their way to the store, and the snapshots that
  // it knows, whose names are ids.
  constexpr auto kSnapshotCount = static_cast<int64_t>(kSnapshots);
  return SharedHeapBytes(sizeof(StoredJournal)) +
         HeapBytes(TokenStream::kCapacity * sizeof(int32_t)) +
         HeapBytes(kSnapshotCount * (sizeof(StoredSnapshot) + 2 * sizeof(int64_t))) +
         kSnapshotCount * HeapBytes(36) + TextHeapBytes(id);
}

StoredJournal& JournalOf(const Session& session) {
  return static_cast<StoredJournal&>(*session.journal);
}

}  // namespace mnemon
