// SPDX-License-Identifier: MIT
#include "server/durability/journal_state.h"

#include <algorithm>
#include <limits>
#include <span>

#include "server/requests/engine_errors.h"

namespace mnemon {

JournalSnapshots::JournalSnapshots(std::vector<StoredSnapshot> snapshots,
                                   std::vector<StoredCheckpoint> checkpoints)
    : checkpoints_(std::move(checkpoints)) {
  for (StoredSnapshot& snapshot : snapshots) {
    const int64_t tokens = snapshot.tokens;
    kept_.push_back({.snapshot = std::move(snapshot), .common = tokens});
  }
}

void JournalSnapshots::OnCut(int64_t kept) noexcept {
  copy_common_ = std::min(copy_common_, kept);
  for (Kept& snapshot : kept_) snapshot.common = std::min(snapshot.common, kept);
}

void JournalSnapshots::BeginCopy() {
  copy_common_ = std::numeric_limits<int64_t>::max();
}

void JournalSnapshots::DropOldest(size_t stay, std::vector<std::string>& dropped) {
  while (kept_.size() > stay) {
    dropped.push_back(std::move(kept_.front().snapshot.name));
    kept_.erase(kept_.begin());
  }
}

void JournalSnapshots::Add(StoredSnapshot snapshot, int64_t tokens) {
  kept_.push_back({.snapshot = std::move(snapshot),
                   .common = std::min(tokens, copy_common_),
                   .written = false});
}

bool JournalSnapshots::Remove(const std::string& name) {
  return std::erase_if(
             kept_, [&](const Kept& kept) { return kept.snapshot.name == name; }) > 0;
}

void JournalSnapshots::DropAll(std::vector<std::string>& dropped) {
  DropOldest(0, dropped);
  for (StoredCheckpoint& checkpoint : checkpoints_) {
    dropped.push_back(std::move(checkpoint.snapshot.name));
  }
  checkpoints_.clear();
}

void JournalSnapshots::ListUnwritten(std::vector<std::string>& names) const {
  for (const Kept& kept : kept_) {
    if (!kept.written) names.push_back(kept.snapshot.name);
  }
}

void JournalSnapshots::SetWritten(const std::vector<std::string>& names) {
  for (Kept& kept : kept_) {
    if (std::ranges::count(names, kept.snapshot.name) > 0) kept.written = true;
  }
}

std::optional<StoredSnapshot> JournalSnapshots::Usable(int64_t tokens) const {
  for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept) {
    const int64_t computed = kept->snapshot.computed;
    if (kept->written && computed > 0 && computed <= kept->common &&
        computed < tokens) {
      return kept->snapshot;
    }
  }
  return std::nullopt;
}

int64_t JournalSnapshots::newest_tokens() const {
  return kept_.empty() ? 0 : kept_.back().common;
}

std::vector<StoredSnapshot> JournalSnapshots::List() const {
  std::vector<StoredSnapshot> snapshots;
  for (const Kept& kept : kept_) snapshots.push_back(kept.snapshot);
  return snapshots;
}

const StoredCheckpoint* JournalSnapshots::FindCheckpoint(const std::string& id) const {
  const auto found = std::ranges::find(checkpoints_, id, &StoredCheckpoint::id);
  return found == checkpoints_.end() ? nullptr : &*found;
}

bool JournalSnapshots::DropCheckpoint(const std::string& id,
                                      std::vector<std::string>& dropped) {
  const auto found = std::ranges::find(checkpoints_, id, &StoredCheckpoint::id);
  if (found == checkpoints_.end()) return false;
  dropped.push_back(std::move(found->snapshot.name));
  checkpoints_.erase(found);
  return true;
}

void GatheredChanges::AddChange(const TokenHistory& history, int64_t kept,
                                int64_t size) {
  if (!changed) entry.kept = history.size();
  const int64_t from = std::min(entry.kept, kept);
  const int64_t stays = kept - from;
  entry.tokens.resize(static_cast<size_t>(from < entry.kept ? 0 : stays));
  entry.kept = from;
  const size_t before = entry.tokens.size();
  entry.tokens.resize(before + static_cast<size_t>(size - kept));
  history.Read(kept, std::span(entry.tokens).subspan(before));
  changed = true;
}

void GatheredChanges::DropHistory() {
  changed = false;
  entry.tokens.clear();
  fold = {};
}

void GatheredChanges::DropSnapshots(JournalSnapshots& snapshots) {
  snapshots.DropAll(dropped);
  checkpoints.clear();
}

void GatheredChanges::Take(TakenChanges& taken, std::vector<int32_t> empty,
                           uint64_t& sequence) {
  if (std::exchange(changed, false)) {
    taken.sequence = ++sequence;
    taken.entry = {.kept = entry.kept,
                   .tokens = std::exchange(entry.tokens, std::move(empty))};
  }
  taken.fold = std::exchange(fold, {});
  taken.checkpoints.swap(checkpoints);
  taken.record = std::exchange(record, false);
  if (taken.record) {
    // Only a record that does not name them lets them go.
    taken.dropped.swap(dropped);
    taken.dropped_checkpoints.swap(dropped_checkpoints);
  }
  taken.waiters.swap(waiters);
  taken.finish = std::exchange(finish, false);
  // One that has ended waits for nothing more.
  taken.stream = taken.finish ? std::move(stream) : stream;
  taken.end = history_size;
}

bool JournalStanding::Gathers() const {
  return durable() &&
         (state == State::kReady || (state == State::kNeedsBase && copies_base));
}

absl::Status JournalStanding::End(const std::string& id) const {
  if (state == State::kDeleted) return engine_errors::NotFound(id);
  return state == State::kFailed && Waits() ? failure : absl::OkStatus();
}

void JournalStanding::NeedBase() {
  state = State::kNeedsBase;
  copies_base = false;
  in_store = true;
  deletion.unstoring = false;
}

void JournalStanding::Fail(const absl::Status& status) {
  state = State::kFailed;
  failure = status;
  unreported = true;
}

bool JournalStanding::TakeDeletion(TakenChanges& taken, GatheredChanges& gathered,
                                   std::vector<OnSynced>& deleters) {
  deletion.due = false;
  taken.anything = taken.deleted = taken.sync = true;
  taken.waiters.swap(deleters);
  deletion.taken = deletion.tried;
  if (state == State::kDeleted) {
    taken.refused.swap(gathered.waiters);
  } else if (deletion.tried) {
    // What else there is to write waits for the outcome.
    return false;
  } else if (durable()) {
    // It is durable again: what it then needs follows.
    taken.again = true;
    return false;
  } else {
    taken.waiters.swap(gathered.waiters);
  }
  taken.dropped.swap(gathered.dropped);
  gathered.checkpoints.clear();
  gathered.record = false;
  return true;
}

}  // namespace mnemon
