// SPDX-License-Identifier: MIT
#include "server/durability/journal_writer.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/out_of_memory.h"
#include "base/strings.h"
#include "server/durability/journal_entry.h"
#include "server/durability/stored_journal.h"

namespace mnemon {

using SteadyClock = std::chrono::steady_clock;

// Its changes are views of what the other members keep.
struct JournalWriter::Batch {
  std::deque<Part> parts;
  std::deque<std::string> texts;
  std::vector<SessionChanges> changes;  // of each part
  size_t bytes = 0;
  int64_t entries = 0, tokens = 0;
  bool sync = false;

  std::string_view Keep(std::string text) {
    bytes += text.size();
    return texts.emplace_back(std::move(text));
  }
};

JournalWriter::JournalWriter(SessionStore& store, CallbackThreads& callbacks,
                             Waiters& waiters, Hooks hooks)
    : store_(store),
      callbacks_(callbacks),
      waiters_(waiters),
      hooks_(std::move(hooks)) {
  thread_ = std::thread([this] { Run(); });
}

void JournalWriter::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status JournalWriter::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

bool JournalWriter::WaitIdle(SteadyClock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, deadline,
                          [this] { return first_ == nullptr && !busy_; });
}

JournalStats JournalWriter::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void JournalWriter::Queue(std::shared_ptr<StoredJournal> journal) noexcept {
  bool wake;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(journal->in_queue.queued, true)) return;
    StoredJournal* const added = journal.get();
    wake = first_ == nullptr;
    (first_ == nullptr ? first_ : last_->in_queue.next) = std::move(journal);
    last_ = added;
  }
  if (wake) work_.notify_one();
}

void JournalWriter::ReleaseAll(std::shared_ptr<TokenStream> stream) {
  constexpr auto kAll = std::numeric_limits<int64_t>::max();
  if (stream->Release(kAll, /*finish=*/true, SteadyClock::now()) !=
      TokenStream::Notice::kNone) {
    callbacks_.Post(std::move(stream));
  }
}

void JournalWriter::OnDeleted(const StoredJournal& journal) {
  if (const auto session = journal.session.lock()) hooks_.deleted(session);
}

std::shared_ptr<StoredJournal> JournalWriter::Await() {
  std::unique_lock lock(mutex_);
  busy_ = false;
  if (first_ == nullptr) idle_.notify_all();
  while (first_ == nullptr && !stopping_) {
    if (failed_.empty()) {
      work_.wait(lock);
    } else if (work_.wait_for(lock, kRetry) == std::cv_status::timeout) {
      break;
    }
  }
  busy_ = true;
  last_ = nullptr;
  return std::move(first_);
}

void JournalWriter::Run() {
  while (true) {
    std::shared_ptr<StoredJournal> first = Await();
    bool stopping;
    {
      std::lock_guard lock(mutex_);
      stopping = stopping_;
    }
    if (first == nullptr && stopping) return;
    if (!failed_.empty() && (stopping || SteadyClock::now() >= next_try_)) {
      TryRecover();
      next_try_ = SteadyClock::now() + kRetry;
    }
    WriteAll(std::move(first));
    // Tokens that come within a moment share an entry.
    std::unique_lock lock(mutex_);
    work_.wait_until(lock, last_commit_ + kPace, [this] { return stopping_; });
  }
}

void JournalWriter::WriteAll(std::shared_ptr<StoredJournal> first) {
  Batch batch;
  while (first != nullptr) {
    const std::shared_ptr<StoredJournal> journal = std::move(first);
    {
      // One by one: what is queued again gets another next one.
      std::lock_guard lock(mutex_);
      first = std::move(journal->in_queue.next);
      journal->in_queue.queued = false;
    }
    try {
      Add(journal, batch);
    } catch (const std::bad_alloc&) {
      batch.parts.push_back({.journal = journal, .taken = {}});
      Fail(batch, OutOfMemoryError());
    }
    if (batch.bytes >= kCommitBytes) Write(batch);
  }
  Write(batch);
}

void JournalWriter::Add(const std::shared_ptr<StoredJournal>& journal, Batch& batch) {
  auto& part = batch.parts.emplace_back();
  part.journal = journal;
  part.taken = journal->Take();
  TakenChanges& taken = part.taken;
  for (const OnSynced& waiter : std::exchange(taken.refused, {})) {
    waiter(taken.refusal);
  }
  if (taken.again) Queue(journal);
  if (!taken.failure.ok()) {
    // It has told those who wait; until the next try others may be written.
    if (const auto session = journal->session.lock()) {
      hooks_.lost(session, taken.failure);
    }
    KeepFailed(journal);
  }
  if (!taken.anything) {
    batch.parts.pop_back();
    return;
  }
  using Kind = StoreChange::Kind;
  SessionChanges changes{.session = {.id = journal->id}, .changes = {}};
  const auto add = [&](StoreTable table, Kind kind, std::string_view name,
                       std::string_view value) {
    changes.changes.push_back(
        {.table = table, .kind = kind, .name = name, .value = value});
  };
  if (taken.deleted) {
    for (const StoreTable table :
         {StoreTable::kJournal, StoreTable::kCheckpoints, StoreTable::kSessions}) {
      add(table, Kind::kDeleteAll, {}, {});
    }
  }
  for (const std::string& id : taken.dropped_checkpoints) {
    add(StoreTable::kCheckpoints, Kind::kDelete, id, {});
  }
  for (const auto& checkpoint : taken.checkpoints) {
    add(StoreTable::kCheckpoints, Kind::kPut, checkpoint.id,
        batch.Keep(FormatTokens(checkpoint.tokens)));
  }
  if (taken.fold.sequence != 0) {
    const std::string_view name = batch.Keep(JournalName(taken.fold.sequence));
    add(StoreTable::kJournal, Kind::kDeleteBefore, name, {});
    add(StoreTable::kJournal, Kind::kPut, name,
        batch.Keep(FormatJournalEntry(0, taken.fold.history)));
  }
  if (taken.sequence != 0) {
    add(StoreTable::kJournal, Kind::kPut, batch.Keep(JournalName(taken.sequence)),
        batch.Keep(FormatJournalEntry(taken.entry.kept, taken.entry.tokens)));
    ++batch.entries;
    batch.tokens += static_cast<int64_t>(taken.entry.tokens.size());
  }
  if (taken.record) {
    if (const auto session = journal->session.lock()) {
      add(StoreTable::kSessions, Kind::kPut, {}, batch.Keep(hooks_.record(*session)));
    }
  }
  batch.sync = batch.sync || taken.sync;
  batch.changes.push_back(std::move(changes));
}

void JournalWriter::Write(Batch& batch) {
  if (batch.parts.empty()) return;
  const auto begin = SteadyClock::now();
  // What was written before is synced with this commit.
  const bool commits =
      std::any_of(batch.changes.begin(), batch.changes.end(),
                  [](const auto& session) { return !session.changes.empty(); }) ||
      (batch.sync && !unsynced_.empty());
  absl::Status status = this->status();
  if (status.ok() && commits) {
    status = store_.Commit(batch.changes, batch.sync ? Sync::kYes : Sync::kNo);
  }
  last_commit_ = SteadyClock::now();
  if (!status.ok()) return Fail(batch, status);
  FailSome(batch);
  if (batch.sync) {
    for (const auto& journal : unsynced_) journal->in_writer.unsynced = false;
    unsynced_.clear();
  } else {
    for (const auto& part : batch.parts) {
      if (!std::exchange(part.journal->in_writer.unsynced, true)) {
        unsynced_.push_back(part.journal);
      }
    }
  }
  {
    std::lock_guard lock(mutex_);
    stats_.commits += commits ? 1 : 0;
    stats_.syncs += commits && batch.sync ? 1 : 0;
    stats_.entries += batch.entries;
    stats_.tokens += batch.tokens;
    stats_.bytes += static_cast<int64_t>(batch.bytes);
    if (commits) stats_.commit_time += last_commit_ - begin;
  }
  CallbackList now, later;
  for (auto& [journal, taken] : batch.parts) {
    if (taken.stream != nullptr) {
      switch (taken.stream->Release(taken.end, taken.finish, last_commit_)) {
        case TokenStream::Notice::kNone:
          break;
        case TokenStream::Notice::kNow:
          now.Add(taken.stream);
          break;
        case TokenStream::Notice::kLater:
          later.Add(TokenStream::Late(taken.stream));
      }
    }
  }
  callbacks_.Post(now);
  callbacks_.PostLater(later);
  for (auto& [journal, taken] : batch.parts) {
    journal->Written(taken);
    for (const std::string& name : taken.dropped) store_.DropSnapshot(name);
  }
  batch = {};
}

void JournalWriter::FailSome(Batch& batch) {
  std::deque<Part> written;
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    Part& part = batch.parts[i];
    const absl::Status& status = batch.changes[i].status;
    if (status.ok()) {
      written.push_back(std::move(part));
      continue;
    }
    LogError(
        StrCat("session ", part.journal->id, " cannot be stored: ", status.message()));
    Lose({&part, 1}, status);
  }
  batch.parts.swap(written);
}

void JournalWriter::Fail(Batch& batch, const absl::Status& status) {
  std::vector<Part> lost(std::move_iterator(batch.parts.begin()),
                         std::move_iterator(batch.parts.end()));
  // What was written and not synced may be gone too.
  if (!store_.healthy()) {
    for (auto& journal : unsynced_) {
      journal->in_writer.unsynced = false;
      lost.push_back({.journal = std::move(journal), .taken = {}});
    }
    unsynced_.clear();
  }
  {
    std::lock_guard lock(mutex_);
    status_ = status;
    ++stats_.failures;
  }
  LogError(StrCat("sessions cannot be stored: ", status.message()));
  Lose(lost, status);
  batch = {};
}

void JournalWriter::Lose(std::span<Part> parts, const absl::Status& status) {
  for (auto& [journal, taken] : parts) {
    journal->Lost(status, taken);
    if (const auto session = journal->session.lock()) hooks_.lost(session, status);
  }
  for (const auto& [journal, taken] : parts) {
    for (const OnSynced& waiter : taken.waiters) waiter(status);
  }
  for (const auto& [journal, taken] : parts) KeepFailed(journal);
}

void JournalWriter::KeepFailed(const std::shared_ptr<StoredJournal>& journal) {
  if (!std::exchange(journal->in_writer.failed, true)) failed_.push_back(journal);
}

void JournalWriter::TryRecover() {
  if (!store_.Recover().ok()) return;
  Journals failed;
  failed.swap(failed_);
  for (const auto& journal : failed) journal->in_writer.failed = false;
  std::vector<bool> needs_base;
  for (const auto& journal : failed) {
    if (journal->TakeDoubt()) {
      const auto record = store_.Get(StoreTable::kSessions, {.id = journal->id}, {});
      if (record.ok() && !*record) OnDeleted(*journal);
    }
    needs_base.push_back(journal->Recover());
    // Deletions come before what other sessions with the same ids write.
    if (!needs_base.back()) Queue(journal);
  }
  absl::Status before;
  {
    // Last: from now on durable calls are taken.
    std::lock_guard lock(mutex_);
    std::swap(before, status_);
  }
  if (!before.ok()) LogInfo("sessions can be stored again");
  for (size_t i = 0; i < failed.size(); ++i) {
    if (!needs_base[i]) continue;
    if (const auto session = failed[i]->session.lock()) hooks_.needs_base(session);
    Queue(failed[i]);
  }
}

}  // namespace mnemon
