// SPDX-License-Identifier: MIT
#include "server/run/device_recovery.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/residency/runner_arena.h"

namespace mnemon {
namespace {

// Between two tries to bring a lost device back.
constexpr std::chrono::milliseconds kRestartPause{1000};

}  // namespace

void DeviceRecovery::Lose() {
  RunnerCalls& calls = scope_.calls;
  scope_.LookAtStalled();
  for (const RunnerCalls::List* const list : {&calls.running, &calls.starting}) {
    for (const auto& call : *list) {
      scope_.states.Drop(call->session->in_runner);
      call->steps.draws = false;
    }
  }
  scope_.states.DropResting();
  ends_.EndWaiting();
  const absl::Status lost = CatchOutOfMemory({}, DeviceLost);
  while (!calls.running.empty()) ends_.End(calls.running.back(), lost);
  scope_.stepper.Restarted();
  scope_.restart_at = scope_.context->options.clock->Now();
}

bool DeviceRecovery::Restore() {
  if (!scope_.restart_at) return true;
  if (scope_.round < *scope_.restart_at) return false;
  scope_.context->turns.Leave(scope_.turn);
  const absl::Status status = Restart();
  if (status.ok()) {
    scope_.restart_at.reset();
    return true;
  }
  scope_.callbacks.Add(LogCallback("device_restart_failed", StrCat(status.message())));
  scope_.restart_at = scope_.context->options.clock->Now() + kRestartPause;
  return false;
}

absl::Status DeviceRecovery::Restart() try {
  if (scope_.pins > 0) return absl::UnavailableError("states are still being read");
  const EngineContext& context = *scope_.context;
  Decoder& decoder = *scope_.model.decoder;
  const auto replace = [&](std::unique_ptr<StateMemory> memory) {
    auto arena = MakeArena(scope_.model, context.options, *context.memory,
                           context.recycler, on_clean_, std::move(memory));
    if (arena.ok()) scope_.states.Replace(*std::move(arena));
    return arena.status();
  };
  // Nobody holds a slot. Until the device is back, an arena in host memory that stays
  // empty is in the place of the lost one.
  MNEMON_RETURN_IF_ERROR(replace(nullptr));
  MNEMON_RETURN_IF_ERROR(decoder.Restart());
  return replace(decoder.MakeStateMemory());
} catch (const std::exception& e) {
  return absl::UnavailableError(e.what());
}

}  // namespace mnemon
