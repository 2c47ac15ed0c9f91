// SPDX-License-Identifier: MIT
#include "server/engine/journal_writer.h"

#include <deque>
#include <new>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/out_of_memory.h"
#include "server/engine/journal_entry.h"

namespace mnemon {

using SteadyClock = std::chrono::steady_clock;

// One commit: changes are views of what the other members keep.
struct JournalWriter::Batch {
  struct Part {
    std::shared_ptr<SessionJournal> journal;
    SessionJournal::Taken taken;
  };
  std::deque<Part> parts;
  std::deque<std::string> texts;
  std::vector<StoreChange> changes;
  size_t bytes = 0;
  int64_t entries = 0, tokens = 0;
  bool sync = false;

  std::string_view Keep(std::string text) {
    bytes += text.size();
    return texts.emplace_back(std::move(text));
  }
};

JournalWriter::JournalWriter(SessionStore& store, CallbackThreads& callbacks,
                             Hooks hooks)
    : store_(store), callbacks_(callbacks), hooks_(std::move(hooks)) {
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

void JournalWriter::Queue(std::shared_ptr<SessionJournal> journal) noexcept {
  bool wake;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(journal->queued_, true)) return;
    SessionJournal* const added = journal.get();
    wake = first_ == nullptr;
    (first_ == nullptr ? first_ : last_->next_) = std::move(journal);
    last_ = added;
  }
  if (wake) work_.notify_one();
}

std::shared_ptr<SessionJournal> JournalWriter::Await() {
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
    std::shared_ptr<SessionJournal> first = Await();
    {
      std::lock_guard lock(mutex_);
      if (first == nullptr && stopping_) return;
    }
    if (!failed_.empty()) TryRecover();
    WriteAll(std::move(first));
    // Tokens that come within a moment share an entry.
    std::unique_lock lock(mutex_);
    work_.wait_until(lock, last_commit_ + kPace, [this] { return stopping_; });
  }
}

void JournalWriter::WriteAll(std::shared_ptr<SessionJournal> first) {
  Batch batch;
  while (first != nullptr) {
    const std::shared_ptr<SessionJournal> journal = std::move(first);
    {
      // One by one: what is queued again gets another next_.
      std::lock_guard lock(mutex_);
      first = std::move(journal->next_);
      journal->queued_ = false;
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

void JournalWriter::Add(const std::shared_ptr<SessionJournal>& journal, Batch& batch) {
  auto& part = batch.parts.emplace_back();
  part.journal = journal;
  part.taken = journal->Take();
  SessionJournal::Taken& taken = part.taken;
  if (!taken.failure.ok()) {
    // It has told those who wait; until the next try others may be written.
    hooks_.lost(*journal, taken.failure);
    failed_.push_back(journal);
  }
  if (!taken.anything) {
    batch.parts.pop_back();
    return;
  }
  const std::string_view id = journal->id();
  const auto add = [&](StoreTable table, StoreChange::Kind kind, std::string_view name,
                       std::string_view value) {
    batch.changes.push_back(
        {.table = table, .kind = kind, .id = id, .name = name, .value = value});
  };
  using Kind = StoreChange::Kind;
  batch.sync = batch.sync || taken.sync;
  if (taken.deleted) {
    for (const StoreTable table :
         {StoreTable::kJournal, StoreTable::kSnapshots, StoreTable::kSessions}) {
      add(table, Kind::kDeleteAll, {}, {});
    }
    return;
  }
  for (auto& blob : taken.blobs) {
    batch.bytes += blob.bytes.size();
    add(StoreTable::kSnapshots, Kind::kPut, blob.name, blob.bytes);
  }
  if (taken.sequence != 0) {
    add(StoreTable::kJournal, Kind::kPut, batch.Keep(JournalName(taken.sequence)),
        batch.Keep(FormatJournalEntry(taken.kept, taken.tokens)));
    ++batch.entries;
    batch.tokens += static_cast<int64_t>(taken.tokens.size());
  }
  if (taken.record) {
    if (std::optional<std::string> record = hooks_.record(*journal)) {
      add(StoreTable::kSessions, Kind::kPut, {}, batch.Keep(*std::move(record)));
    }
  }
  for (const std::string& name : taken.dropped) {
    add(StoreTable::kSnapshots, Kind::kDelete, name, {});
  }
  for (uint64_t entry = taken.drop_begin; entry < taken.drop_end; ++entry) {
    add(StoreTable::kJournal, Kind::kDelete, batch.Keep(JournalName(entry)), {});
  }
}

void JournalWriter::Write(Batch& batch) {
  if (batch.parts.empty()) return;
  const auto begin = SteadyClock::now();
  // What was written before is synced with this commit.
  const bool commits = !batch.changes.empty() || (batch.sync && !unsynced_.empty());
  absl::Status status = this->status();
  if (status.ok() && commits) {
    status = store_.Commit(batch.changes, batch.sync ? Sync::kYes : Sync::kNo);
  }
  last_commit_ = SteadyClock::now();
  if (!status.ok()) return Fail(batch, status);
  if (batch.sync) {
    for (const auto& journal : unsynced_) journal->unsynced_ = false;
    unsynced_.clear();
  } else {
    for (const auto& part : batch.parts) {
      if (!std::exchange(part.journal->unsynced_, true)) {
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
  for (auto& [journal, taken] : batch.parts) journal->Written(taken);
  batch = {};
}

void JournalWriter::Fail(Batch& batch, const absl::Status& status) {
  Journals lost;
  for (auto& part : batch.parts) lost.push_back(part.journal);
  // What was written and not synced may be gone too.
  if (!store_.healthy()) {
    for (auto& journal : unsynced_) {
      journal->unsynced_ = false;
      lost.push_back(std::move(journal));
    }
    unsynced_.clear();
  }
  {
    std::lock_guard lock(mutex_);
    status_ = status;
    ++stats_.failures;
  }
  LogError(std::string("sessions cannot be stored: ") + std::string(status.message()));
  for (const auto& journal : lost) {
    journal->Lost(status);
    hooks_.lost(*journal, status);
  }
  for (auto& part : batch.parts) {
    for (const auto& waiter : part.taken.waiters) waiter(status);
  }
  for (auto& journal : lost) failed_.push_back(std::move(journal));
  batch = {};
}

void JournalWriter::TryRecover() {
  if (!store_.Recover().ok()) return;
  Journals failed;
  failed.swap(failed_);
  std::vector<bool> needs_base;
  for (const auto& journal : failed) needs_base.push_back(journal->Recover());
  absl::Status before;
  {
    // Last: from now on durable calls are taken.
    std::lock_guard lock(mutex_);
    std::swap(before, status_);
  }
  if (!before.ok()) LogInfo("sessions can be stored again");
  for (size_t i = 0; i < failed.size(); ++i) {
    if (needs_base[i]) hooks_.needs_base(failed[i]);
    Queue(failed[i]);
  }
}

}  // namespace mnemon
