// SPDX-License-Identifier: MIT
#include "server/durability/journal_snapshots.h"

#include <algorithm>
#include <limits>
#include <utility>

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
  for (Kept& kept : kept_) dropped.push_back(std::move(kept.snapshot.name));
  kept_.clear();
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
  for (const std::string& name : names) {
    for (Kept& kept : kept_) {
      if (kept.snapshot.name == name) kept.written = true;
    }
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
  const auto found =
      std::find_if(checkpoints_.begin(), checkpoints_.end(),
                   [&](const auto& checkpoint) { return checkpoint.id == id; });
  return found == checkpoints_.end() ? nullptr : &*found;
}

void JournalSnapshots::AddCheckpoint(StoredCheckpoint checkpoint) {
  checkpoints_.push_back(std::move(checkpoint));
}

bool JournalSnapshots::DropCheckpoint(const std::string& id,
                                      std::vector<std::string>& dropped) {
  const auto found =
      std::find_if(checkpoints_.begin(), checkpoints_.end(),
                   [&](const auto& checkpoint) { return checkpoint.id == id; });
  if (found == checkpoints_.end()) return false;
  dropped.push_back(std::move(found->snapshot.name));
  checkpoints_.erase(found);
  return true;
}

}  // namespace mnemon
