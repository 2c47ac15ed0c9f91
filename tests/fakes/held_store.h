// SPDX-License-Identifier: MIT
// A store of sessions in memory whose commits and reads a test can hold, release or
// make fail.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "server/store/session_store.h"

namespace mnemon {

// Safe for concurrent use.
class HeldStore final : public SessionStore {
 public:
  // Makes further commits wait for Release.
  void Hold() {
    std::lock_guard lock(mutex_);
    holds_ = true;
  }
  // Lets `count` commits proceed, waiting or future ones.
  void Release(int count = 1) {
    std::lock_guard lock(mutex_);
    released_ += count;
    changed_.notify_all();
  }
  // Lets all commits proceed.
  void Open() {
    std::lock_guard lock(mutex_);
    holds_ = false;
    released_ = 0;
    changed_.notify_all();
  }
  // Makes further commits, and Recover, fail until `fails` is false. `written`: they
  // are in the store nevertheless.
  void Fail(bool fails, bool written = false) {
    std::lock_guard lock(mutex_);
    fails_ = fails;
    written_ = written;
  }
  // Whether a commit waits for Release, now or within `timeout`.
  bool AwaitHeld(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return waiting_ > 0; });
  }
  // Makes the next `count` reads of the table, of one session each, wait for OpenReads
  // with their results.
  void HoldReads(StoreTable table, int count = std::numeric_limits<int>::max()) {
    std::lock_guard lock(mutex_);
    held_table_ = table;
    reads_to_hold_ = count;
  }
  void OpenReads() {
    std::lock_guard lock(mutex_);
    reads_to_hold_ = 0;
    ++reads_opened_;
    changed_.notify_all();
  }
  bool AwaitHeldRead(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return reads_held_ > 0; });
  }
  // Makes further reads fail until `fails` is false.
  void FailReads(bool fails) {
    std::lock_guard lock(mutex_);
    reads_fail_ = fails;
  }
  // Called whenever a commit starts to wait.
  void Notify(std::function<void()> on_held) {
    std::lock_guard lock(mutex_);
    on_held_ = std::move(on_held);
  }

  absl::Status Commit(std::span<SessionChanges> sessions, Sync) override {
    std::unique_lock lock(mutex_);
    if (!healthy_) return Failure();
    ++waiting_;
    changed_.notify_all();
    if (holds_ && on_held_) on_held_();
    changed_.wait(lock, [this] { return !holds_ || released_ > 0; });
    if (holds_) --released_;
    --waiting_;
    if (!fails_ || written_) {
      for (const SessionChanges& session : sessions) Apply(session);
    }
    healthy_ = !fails_;
    return healthy_ ? absl::OkStatus() : Failure();
  }

  absl::StatusOr<std::optional<std::string>> Get(StoreTable table,
                                                 const SessionKey& session,
                                                 std::string_view name) override {
    std::unique_lock lock(mutex_);
    const auto found =
        values_.find({table, std::string(session.id), std::string(name)});
    std::optional<std::string> value;
    if (found != values_.end()) value = found->second;
    if (!EndRead(lock, table)) return ReadFailure();
    return value;
  }

  absl::Status Scan(StoreTable table, const StoreRange& range, const Visit& visit,
                    const Unreadable&) override {
    std::map<Key, std::string> values;
    {
      std::unique_lock lock(mutex_);
      values = values_;
      if (range.session && !EndRead(lock, table)) return ReadFailure();
    }
    for (const auto& [key, value] : values) {
      const auto& [in, id, name] = key;
      if (in != table) continue;
      if (range.session && (id != range.session->id || name < range.from)) continue;
      if (!visit({.id = id}, name, value)) break;
    }
    return absl::OkStatus();
  }

  bool healthy() const override {
    std::lock_guard lock(mutex_);
    return healthy_;
  }
  absl::Status Recover() override {
    std::lock_guard lock(mutex_);
    if (!healthy_ && fails_) return Failure();
    healthy_ = true;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> PutSnapshot(std::string_view bytes) override {
    std::lock_guard lock(mutex_);
    std::string name = "snapshot" + std::to_string(snapshots_made_++);
    snapshots_[name] = std::string(bytes);
    return name;
  }
  absl::StatusOr<std::string> GetSnapshot(const std::string& name) override {
    std::lock_guard lock(mutex_);
    const auto found = snapshots_.find(name);
    if (found == snapshots_.end()) return absl::NotFoundError(name);
    return found->second;
  }
  void DropSnapshot(const std::string& name) override {
    std::lock_guard lock(mutex_);
    snapshots_.erase(name);
  }
  // Number of stored snapshots.
  size_t snapshots() const {
    std::lock_guard lock(mutex_);
    return snapshots_.size();
  }
  void CountSnapshots(const std::vector<std::string>&, bool) override {}
  bool needs_upgrade() const override { return false; }
  absl::Status FinishUpgrade() override { return absl::OkStatus(); }
  absl::Status Compact() override { return absl::OkStatus(); }
  bool AwaitWhole(int) override { return true; }
  StoreCondition condition() const override { return {}; }
  int64_t memory_bytes() const override { return 0; }

 private:
  using Key = std::tuple<StoreTable, std::string, std::string>;

  static absl::Status Failure() {
    return MakeError(absl::StatusCode::kResourceExhausted, "the disk is full",
                     {.reason = "STORE_FULL"});
  }

  static absl::Status ReadFailure() {
    return MakeError(absl::StatusCode::kUnavailable, "the disk fails",
                     {.reason = "STORE_FAILED"});
  }

  // Returns false if the read fails.
  bool EndRead(std::unique_lock<std::mutex>& lock, StoreTable table) {
    if (table == held_table_ && reads_to_hold_ > 0) {
      --reads_to_hold_;
      ++reads_held_;
      changed_.notify_all();
      changed_.wait(lock,
                    [this, opened = reads_opened_] { return reads_opened_ != opened; });
      --reads_held_;
    }
    return !reads_fail_;
  }

  void Apply(const SessionChanges& session) {
    const std::string id(session.session.id);
    for (const StoreChange& change : session.changes) {
      const Key key{change.table, id, std::string(change.name)};
      const auto erase_before = [&](const std::optional<std::string>& end) {
        std::erase_if(values_, [&](const auto& entry) {
          const auto& [table, of, name] = entry.first;
          return table == change.table && of == id && (!end || name < *end);
        });
      };
      switch (change.kind) {
        case StoreChange::Kind::kPut:
          values_[key] = std::string(change.value);
          break;
        case StoreChange::Kind::kDelete:
          values_.erase(key);
          break;
        case StoreChange::Kind::kDeleteAll:
          erase_before(std::nullopt);
          break;
        case StoreChange::Kind::kDeleteBefore:
          erase_before(std::string(change.name));
      }
    }
  }

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<Key, std::string> values_;
  std::map<std::string, std::string> snapshots_;  // by name
  int snapshots_made_ = 0;
  std::function<void()> on_held_;
  bool holds_ = false;
  int released_ = 0;
  int waiting_ = 0;
  bool fails_ = false;
  bool written_ = false;
  bool healthy_ = true;
  StoreTable held_table_ = StoreTable::kSessions;
  int reads_to_hold_ = 0;
  int reads_held_ = 0;
  int reads_opened_ = 0;
  bool reads_fail_ = false;
};

}  // namespace mnemon
