// SPDX-License-Identifier: MIT
// Streams that ask for tokens and never take any.
#include "bench/wire/attacker.h"

namespace mnemon::wire {
namespace {

constexpr int kShutPeers = 4;  // connections
constexpr int kShutStreams = 100;

}  // namespace

void KeepWindowsShut(const AttackPlan& plan, AttackTally& tally) {
  RunByTurns(plan, tally, kShutPeers, {.answers = false}, [&](Attacker& attacker) {
    if (attacker.Fresh()) {
      attacker.Send(Settings({{kInitialWindowSetting, 0}}), 1);
      for (int i = 0; i < kShutStreams; ++i) {
        attacker.Send(WholeCall(attacker.NextStream(), kGenerate, plan.endless_call),
                      2);
      }
    }
    attacker.peer().Read(Soon(plan));
  });
}

}  // namespace mnemon::wire
