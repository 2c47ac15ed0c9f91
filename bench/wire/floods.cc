// SPDX-License-Identifier: MIT
// Endless frames that cost a client nothing.
#include "bench/wire/attacker.h"

namespace mnemon::wire {
namespace {

constexpr int kFloods = 2;  // connections
constexpr size_t kBatch = 32768;

// Sends `opening` once per connection, then `frame` repeatedly.
void FloodWith(const AttackPlan& plan, AttackTally& tally, const std::string& opening,
               const std::string& frame, const PeerOptions& options = {}) {
  std::string batch;
  int64_t frames = 0;
  for (; batch.size() < kBatch; ++frames) batch += frame;
  RunByTurns(plan, tally, kFloods, options, [&](Attacker& attacker) {
    if (attacker.Fresh()) attacker.Send(opening, 1);
    attacker.Send(batch, frames);
  });
}

}  // namespace

void SendPings(const AttackPlan& plan, AttackTally& tally) {
  FloodWith(plan, tally, "", Ping(0));
}

void SendPingAcks(const AttackPlan& plan, AttackTally& tally) {
  FloodWith(plan, tally, "", Ping(kAck));
}

void SendSettings(const AttackPlan& plan, AttackTally& tally) {
  FloodWith(plan, tally, "", Settings({{kInitialWindowSetting, kFirstWindow}}));
}

void SendPriorities(const AttackPlan& plan, AttackTally& tally) {
  FloodWith(plan, tally, "", Priority(1));
}

void SendWindowUpdates(const AttackPlan& plan, AttackTally& tally) {
  FloodWith(plan, tally, "", WindowUpdate(0, 1));
}

void SendEmptyData(const AttackPlan& plan, AttackTally& tally) {
  FloodWith(plan, tally,
            Frame(FrameType::kHeaders, kEndHeaders, 1, CallBlock(kGenerate)),
            Frame(FrameType::kData, 0, 1, {}));
}

void SendEmptyContinuations(const AttackPlan& plan, AttackTally& tally) {
  FloodWith(plan, tally, Frame(FrameType::kHeaders, 0, 1, CallBlock(kGenerate)),
            Frame(FrameType::kContinuation, 0, 1, {}), {.answers = false});
}

}  // namespace mnemon::wire
