// SPDX-License-Identifier: MIT
// What follows when the device of a decoder is lost: its states are, too, and are
// computed again from the histories when it is back.
#include <exception>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/engine/model_runner.h"
#include "server/engine/runner_arena.h"

namespace mnemon {

void ModelRunner::LoseDevice() {
  LookAtStalled();
  DropAllStates();
  for (const auto& call : running_) call->draws = false;
  EndWaiting();
  const absl::Status lost = CatchOutOfMemory({}, DeviceLost);
  while (!running_.empty()) End(running_.back(), lost);
  stepper_.Restarted();
  restart_at_ = context_->options.clock->Now();
}

void ModelRunner::DropAllStates() {
  for (const auto& call : running_) DropState(*call->session);
  for (const auto& call : starting_) DropState(*call->session);
  while (!resting_.empty()) DropState(*resting_.front());
}

bool ModelRunner::DeviceThere() {
  if (!restart_at_) return true;
  if (round_ < *restart_at_) return false;
  context_->turns.Leave(turn_);
  const absl::Status status = Restart();
  progress_.Sign();
  if (status.ok()) {
    restart_at_.reset();
    return true;
  }
  callbacks_.Add(LogCallback("device_restart_failed", StrCat(status.message())));
  restart_at_ = context_->options.clock->Now() + kRestartPause;
  return false;
}

absl::Status ModelRunner::Restart() try {
  if (pins_ > 0) return absl::UnavailableError("states are still being read");
  // Nobody holds a slot. Until the device is back, an arena in host memory that stays
  // empty is in the place of the lost one.
  MNEMON_ASSIGN_OR_RETURN(arena_, MakeArena(model_, *context_, on_clean_, nullptr));
  MNEMON_RETURN_IF_ERROR(model_.decoder->Restart());
  MNEMON_ASSIGN_OR_RETURN(arena_, MakeArena(model_, *context_, on_clean_,
                                            model_.decoder->MakeStateMemory()));
  return absl::OkStatus();
} catch (const std::exception& e) {
  return absl::UnavailableError(e.what());
}

}  // namespace mnemon
