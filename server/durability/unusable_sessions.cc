// SPDX-License-Identifier: MIT
#include "server/durability/unusable_sessions.h"

#include <cstddef>
#include <utility>

#include "base/memory/heap_bytes.h"
#include "server/requests/engine_errors.h"

namespace mnemon {
namespace {

// The memory of one id in the table, without the status of a damaged one: that is rare.
int64_t UnusableBytes(const std::string& id) {
  struct Node {
    void* next;
    size_t hash;
    std::string id;
    void* why[3];
  };
  return HeapBytes(sizeof(Node)) + static_cast<int64_t>(sizeof(void*)) +
         TextHeapBytes(id);
}

}  // namespace

UnusableSessions::UnusableSessions(SessionDirectory& directory, ByteCharge charge)
    : directory_(directory), charge_(std::move(charge)) {}

absl::Status UnusableSessions::Check(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto found = reasons_.find(id);
  if (found == reasons_.end()) return absl::OkStatus();
  const Reason& why = found->second;
  return why.damage ? *why.damage : engine_errors::SessionOfOtherModel(id, *why.model);
}

void UnusableSessions::AddDamaged(const std::string& id, const absl::Status& damage) {
  std::lock_guard lock(mutex_);
  AddLocked(id, {.damage = std::make_shared<const absl::Status>(damage)});
}

void UnusableSessions::AddForeign(const std::string& id, const std::string& model) {
  std::lock_guard lock(mutex_);
  AddLocked(id, {.model = &*other_models_.insert(model).first});
}

bool UnusableSessions::AddLocked(const std::string& id, Reason reason) {
  const auto [kept, added] = reasons_.try_emplace(id, std::move(reason));
  if (added) charge_.Set(charge_.bytes() + UnusableBytes(kept->first));
  return added;
}

void UnusableSessions::RemoveLocked(const std::string& id) {
  const auto found = reasons_.find(id);
  if (found == reasons_.end()) return;
  charge_.Set(charge_.bytes() - UnusableBytes(found->first));
  reasons_.erase(found);
}

bool UnusableSessions::GiveUp(const std::string& id, const absl::Status& damage) {
  std::lock_guard lock(mutex_);
  const bool added =
      AddLocked(id, {.damage = std::make_shared<const absl::Status>(damage)});
  if (directory_.sleep().Remove(id)) return true;
  if (added) RemoveLocked(id);
  return false;
}

void UnusableSessions::Free(const std::string& id) {
  std::lock_guard lock(mutex_);
  RemoveLocked(id);
  directory_.sleep().FreeId(id);
}

}  // namespace mnemon
