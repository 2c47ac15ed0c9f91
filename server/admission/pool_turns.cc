// SPDX-License-Identifier: MIT
#include "server/admission/pool_turns.h"

#include <algorithm>
#include <utility>

namespace mnemon {
namespace {

// A consumer that reads takes its tokens within this time.
constexpr std::chrono::milliseconds kMostPause{1};
// Of the time that a member has worked, for pauses in vain; saved up to as many.
constexpr int kPatienceShare = 20;
constexpr int kMostInVain = 4;
// After which a longest piece is forgotten, in the time that follows.
constexpr std::chrono::minutes kWindow{10};

}  // namespace

void PoolTurns::Begin(Member& member) {
  std::unique_lock lock(mutex_);
  AcquireLocked(member, lock);
  begun_ = clock_.Now();
}

void PoolTurns::End(Member& member) {
  std::lock_guard lock(mutex_);
  const auto now = clock_.Now();
  const std::chrono::nanoseconds took = now - begun_;
  if (now - window_ > kWindow) {
    longest_before_ = std::exchange(longest_, {});
    window_ = now;
  }
  longest_ = std::max(longest_, took);
  member.used += took;
  member.patience = std::min<std::chrono::nanoseconds>(
      member.patience + took / kPatienceShare, kMostInVain * kMostPause);
}

bool PoolTurns::Wanted() const {
  std::lock_guard lock(mutex_);
  return !waiting_.empty();
}

std::chrono::nanoseconds PoolTurns::LongestPiece() const {
  std::lock_guard lock(mutex_);
  return std::max(longest_, longest_before_);
}

std::chrono::nanoseconds PoolTurns::Patience(const Member& member) {
  std::lock_guard lock(mutex_);
  const Member* const next = NextLocked();
  if (holder_ != &member || next == nullptr) return {};
  return std::clamp<std::chrono::nanoseconds>(
      std::min(member.patience, next->used - member.used), {}, kMostPause);
}

void PoolTurns::Paused(Member& member, std::chrono::nanoseconds time, bool in_vain) {
  std::lock_guard lock(mutex_);
  member.used += time;
  if (in_vain) member.patience -= time;
}

void PoolTurns::AcquireLocked(Member& member, std::unique_lock<std::mutex>& lock) {
  if (holder_ == &member) {
    Member* const next = NextLocked();
    if (next == nullptr || next->used >= member.used) return;
    GrantLocked(next);
  } else {
    if (holder_ != nullptr) virtual_time_ = std::max(virtual_time_, holder_->used);
    // A runner that had no work gets no turns in advance for it.
    member.used = std::max(member.used, virtual_time_);
  }
  if (holder_ == nullptr) return GrantLocked(&member);
  waiting_.push_back(&member);
  member.waiting = true;
  member.granted.wait(lock, [&] { return holder_ == &member; });
}

void PoolTurns::Leave(Member& member) {
  std::lock_guard lock(mutex_);
  if (holder_ != &member) return;
  // Its time alone is no debt to those that join later.
  if (waiting_.empty()) virtual_time_ = std::max(virtual_time_, member.used);
  GrantLocked(NextLocked());
}

PoolTurns::Member* PoolTurns::NextLocked() const {
  const auto next = std::min_element(
      waiting_.begin(), waiting_.end(),
      [](const Member* a, const Member* b) { return a->used < b->used; });
  return next == waiting_.end() ? nullptr : *next;
}

void PoolTurns::GrantLocked(Member* member) {
  holder_ = member;
  if (member == nullptr) return;
  virtual_time_ = std::max(virtual_time_, member->used);
  if (!member->waiting) return;
  member->waiting = false;
  std::erase(waiting_, member);
  member->granted.notify_one();
}

}  // namespace mnemon
