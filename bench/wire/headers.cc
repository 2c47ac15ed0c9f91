// SPDX-License-Identifier: MIT
// Header bombs: one field of 64 MB, which an HPACK parser buffers until it is complete,
// and endless blocks of ordinary fields.
#include <string>
#include <unordered_map>

#include "bench/wire/attacker.h"

namespace mnemon::wire {
namespace {

constexpr int kBombs = 32;                  // connections
constexpr size_t kMostHeader = 64'000'000;  // bytes of one block

// Sends `beginning` as the rest of the first frame's block, then `more` repeatedly.
void Bomb(const AttackPlan& plan, AttackTally& tally, const std::string& beginning,
          const std::string& more) {
  const std::string first =
      Frame(FrameType::kHeaders, 0, 1, CallBlock(kGenerate) + beginning);
  const std::string next = Frame(FrameType::kContinuation, 0, 1, more);
  std::unordered_map<const Attacker*, size_t> sent;  // of its block
  // No other frame, not even an answer, may come between these frames.
  RunByTurns(plan, tally, kBombs, {.answers = false}, [&](Attacker& attacker) {
    if (attacker.Fresh()) {
      sent[&attacker] = 0;
      attacker.Send(first, 1);
    }
    if (sent[&attacker] + more.size() < kMostHeader) {
      if (attacker.Send(next, 1)) sent[&attacker] += more.size();
    } else {
      attacker.peer().Read(Soon(plan));
    }
  });
}

}  // namespace

void SendLongHeaders(const AttackPlan& plan, AttackTally& tally) {
  Bomb(plan, tally, LiteralStart("x-padding", kMostHeader),
       std::string(kMaxFrameBytes, 'a'));
}

void SendManyHeaders(const AttackPlan& plan, AttackTally& tally) {
  std::string fields;
  for (int i = 0; i < 3; ++i) fields += Literal("x-padding", std::string(4096, 'a'));
  Bomb(plan, tally, "", fields);
}

}  // namespace mnemon::wire
