// SPDX-License-Identifier: MIT
#include "server/residency/residency.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "model/state/state_image.h"
#include "server/residency/runner_arena.h"

namespace mnemon {

Residency::Residency(std::unique_ptr<StateArena> arena, bool on_host,
                     std::shared_ptr<EngineMemory> memory)
    : on_host_(on_host),
      accounts_(std::move(memory)),
      arena_(std::move(arena)),
      block_bytes_(BlockBytes(arena_->spec())),
      delivering_(static_cast<size_t>(arena_->slots())) {}

void Residency::BeginRound() {
  left_ = kMostEvicted;
  if (!std::exchange(unfinished_, false)) worthless_ = 0;
}

ResidentList& Residency::ListOf(Place place) {
  switch (place) {
    case Place::kStarting:
      return starting_;
    case Place::kRunning:
      return running_;
    case Place::kAside:
      return aside_;
    case Place::kResting:
      return resting_;
    case Place::kImage:
    case Place::kNowhere:
      break;
  }
  return images_;
}

void Residency::MoveTo(Place place, const std::shared_ptr<ResidentState>& state) {
  Unset(*state);
  state->place = place;
  *state->at = state;
  ResidentList& list = ListOf(place);
  list.splice(list.end(), state->node);
  if (place == Place::kResting) {
    resting_named_ += state->named() ? 1 : 0;
    worthless_ = 0;
  }
  CountDroppable();
}

void Residency::Unset(ResidentState& state) {
  if (state.place == Place::kNowhere) return;
  if (state.place == Place::kResting) {
    resting_named_ -= state.named() ? 1 : 0;
    worthless_ = 0;
  }
  state.node.splice(state.node.end(), ListOf(state.place), state.at);
  state.place = Place::kNowhere;
  CountDroppable();
  // Last: it may be what keeps the state.
  const std::shared_ptr<ResidentState> kept = std::exchange(*state.at, nullptr);
}

void Residency::StopUsing(ResidentState& state) {
  if (state.place != Place::kResting && state.place != Place::kImage) Unset(state);
}

void Residency::Use(const std::shared_ptr<ResidentState>& state, Place place) {
  if (state->place != place) MoveTo(place, state);
}

void Residency::SetAside(ResidentState& state) {
  aside_bytes_ += state.state.bytes(*arena_);
  aside_promised_ += BlocksPromised(*arena_, state);
  aside_.splice(aside_.end(), running_, state.at);
  state.place = Place::kAside;
}

void Residency::ResumeAside() {
  for (const auto& state : aside_) state->place = Place::kRunning;
  running_.splice(running_.end(), aside_);
  aside_bytes_ = aside_promised_ = 0;
}

void Residency::SetResting(const std::shared_ptr<ResidentState>& state) {
  // It may rest since its call has computed all, or because no call was admitted.
  if (state->place == Place::kResting || !state->state.has_state()) return;
  MoveTo(Place::kResting, state);
}

void Residency::Rest(const std::shared_ptr<ResidentState>& state) {
  if (state->state.has_image() && state->place != Place::kImage) {
    MoveTo(Place::kImage, state);
  }
  if (!state->state.has_state()) return;
  state->state.Rest(*arena_, state->history_size());
  UpdateBytes(*state);
  SetResting(state);
}

void Residency::KeepSlot(ResidentState& state, Time since) {
  if (state.state.held()) delivering_[state.state.slot()] = {&state, since};
}

void Residency::LeaveSlot(const ResidentState& state) {
  if (state.state.held()) delivering_[state.state.slot()] = {};
}

bool Residency::SlotFree() {
  if (arena_->slots_used() < arena_->slots() - kTaskSlots) return true;
  Delivering longest;
  for (const Delivering& one : delivering_) {
    if (one.state == nullptr) continue;
    if (longest.state == nullptr || one.since < longest.since) longest = one;
  }
  if (longest.state == nullptr) return false;
  LeaveSlot(*longest.state);
  longest.state->state.Rest(*arena_, longest.state->history_size());
  UpdateBytes(*longest.state);
  return true;
}

void Residency::Drop(ResidentState& state) {
  // It may be what keeps the state.
  const std::shared_ptr<ResidentState> kept = *state.at;
  if (state.place == Place::kResting || state.place == Place::kImage) Unset(state);
  LeaveSlot(state);
  state.state.Release(*arena_);
  state.state.DropImage();
  UpdateBytes(state);
}

void Residency::DropResting() {
  while (!resting_.empty()) Drop(*resting_.front());
}

void Residency::Evict(ResidentState& state) {
  const std::shared_ptr<ResidentState> kept = *state.at;
  if (on_host_ || state.place != Place::kResting) return Drop(state);
  // Its call may deliver.
  LeaveSlot(state);
  state.state.Rest(*arena_, state.history_size());
  if (!state.state.has_state()) return Drop(state);
  const auto offload = [&] {
    return state.state.MakeImage(*arena_, ChargeOf(accounts_, &EngineMemory::images));
  };
  absl::Status offloaded = offload();
  while (absl::IsResourceExhausted(offloaded) && !images_.empty()) {
    DropFirstImage();
    offloaded = offload();
  }
  if (!offloaded.ok()) return Drop(state);
  UpdateBytes(state);
  MoveTo(Place::kImage, kept);
}

bool Residency::EvictShared() {
  if (resting_.empty()) return false;
  Evict(*resting_.front());
  unfinished_ = true;
  return true;
}

void Residency::DropFirstImage() {
  const std::shared_ptr<ResidentState> first = images_.front();
  Unset(*first);
  first->state.DropImage();
  UpdateBytes(*first);
}

bool Residency::GiveUpAsked() {
  int64_t bytes = asked_.exchange(0);
  if (bytes == 0) return false;
  for (; bytes > 0 && !images_.empty() && left_ > 0; --left_) {
    bytes -= images_.front()->image_bytes;
    DropFirstImage();
  }
  while (on_host_ && bytes > 0 && !resting_.empty() && left_-- > 0) {
    ResidentState& state = *resting_.front();
    bytes -= state.state.bytes(*arena_);
    Drop(state);
  }
  arena_->pools().DropBlank();
  arena_->pools().SetAside(0, 0);
  return true;
}

Residency::Restored Residency::Restore(ResidentState& state, bool others_run) {
  if (!state.state.has_image()) return Restored::kYes;
  const bool fits = MakeRoomFor(state.state.image_computed());
  // Read first: blocks that are clean by then are free below.
  const bool waits =
      others_run || unfinished_ || arena_->pools().blocks_recycling() > 0;
  if (fits && state.state.TakeImage(*arena_).ok()) {
    UpdateBytes(state);
    return Restored::kYes;
  }
  return waits ? Restored::kWaits : Restored::kNoRoom;
}

void Residency::BringBack(const std::shared_ptr<ResidentState>& state) {
  SlotState& image = state->state;
  if (!image.has_image() || !MakeRoomFor(image.image_computed()) ||
      !image.TakeImage(*arena_).ok()) {
    return;
  }
  UpdateBytes(*state);
  SetResting(state);
}

bool Residency::MakeRoom(int64_t needed, const ResidentState* except) {
  // Blocks that are being recycled count.
  int64_t missing = needed - FreeBlocks(needed) - arena_->pools().blocks_recycling();
  bool any = false;
  const auto evict = [&](ResidentState& state) {
    if (!state.state.has_state() || &state == except) return false;
    // A state whose blocks others hold too is worth nothing to them.
    const int64_t gained = state.state.UnsharedBlocks(*arena_, missing);
    if (gained == 0) return false;
    missing -= gained;
    Evict(state);
    return any = true;
  };
  while (missing > 0 && worthless_ < resting_.size()) {
    if (left_-- <= 0) {
      unfinished_ = true;
      return any;
    }
    if (evict(*resting_.front())) {
      worthless_ = 0;  // its blocks may have been others' too
    } else {
      resting_.splice(resting_.end(), resting_, resting_.begin());
      ++worthless_;
    }
  }
  for (auto next = starting_.begin(); missing > 0 && next != starting_.end(); ++next) {
    evict(**next);
  }
  return any;
}

bool Residency::MakeFixedRoom(int64_t needed, std::optional<int64_t> bytes,
                              const ResidentState* except) {
  bool any = false;
  while (!resting_.empty() &&
         (FreeFixed(needed) < needed || (bytes && !FixedFit(*bytes)))) {
    ResidentState& state = *resting_.front();
    if (&state == except) break;
    if (left_-- <= 0) {
      unfinished_ = true;
      break;
    }
    Evict(state);
    any = true;
  }
  return any;
}

bool Residency::MakeRoomFor(int64_t computed) {
  if (const int64_t fixed = arena_->spec().bytes_at(0); fixed > 0) {
    MakeFixedRoom(1, fixed);
    if (!FixedFit(fixed)) return false;
  }
  if (!arena_->spec().growing()) return true;
  constexpr int64_t kRows = kBlockPositions;
  const int64_t first = StateImage::FirstRow(arena_->spec(), computed);
  const int64_t blocks = (computed + kRows - 1) / kRows - first / kRows;
  if (FreeBlocks(blocks) < blocks) MakeRoom(blocks);
  // Others are promised to calls that run.
  return FreeBlocks(blocks) >= blocks;
}

int64_t Residency::FreeBlocks(int64_t wanted) {
  const int64_t promised = PromisedBlocks();
  return arena_->pools().FreeBlocks(std::max<int64_t>(0, wanted) + promised) - promised;
}

int64_t Residency::FreeFixed(int64_t wanted) {
  return arena_->pools().FreeFixed(wanted + planned_.fixed) - planned_.fixed;
}

bool Residency::FixedFit(int64_t bytes) const {
  if (arena_->spec().fixed_elements() == 0) return true;
  return arena_->pools().bytes_left() - PromisedBlocks() * block_bytes_ >= bytes;
}

int64_t Residency::PromisedBlocks() const {
  int64_t promised = planned_.blocks + aside_promised_;
  for (const auto& state : running_) promised += BlocksPromised(*arena_, *state);
  return promised;
}

int64_t Residency::SlotBytes() const {
  int64_t bytes = aside_bytes_;
  for (const auto& state : running_) bytes += state->state.bytes(*arena_);
  for (const Delivering& one : delivering_) {
    if (one.state != nullptr) bytes += one.state->state.bytes(*arena_);
  }
  return bytes;
}

void Residency::UpdateBytes(ResidentState& state) const {
  state.state_bytes.store(state.state.bytes(*arena_), std::memory_order_relaxed);
  state.image_bytes.store(state.state.image_bytes(), std::memory_order_relaxed);
}

bool Residency::Ask(int64_t bytes) {
  if (droppable_ == 0) return false;
  asked_ += bytes;
  return true;
}

void Residency::CountDroppable() {
  droppable_ = static_cast<int64_t>((on_host_ ? resting_ : images_).size());
}

}  // namespace mnemon
