// SPDX-License-Identifier: MIT
// Common parts of attacks: connections that are reopened when the server cuts them, and
// counts of this.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "bench/wire/attack.h"
#include "bench/wire/peer.h"

namespace mnemon::wire {

inline constexpr char kGenerate[] = "/mnemon.v1.Generation/Generate";

// One connection of an attack, reopened after a delay when it was cut.
class Attacker {
 public:
  Attacker(const AttackPlan& plan, AttackTally& tally, const PeerOptions& options = {});
  ~Attacker();

  // Whether there is a started connection on which frames can be sent.
  bool Ready();
  // Whether Ready has opened a new connection since the last call.
  bool Fresh() { return std::exchange(fresh_, false); }
  // Sends `bytes`, which are `frames` frames; waits shortly if the server takes none.
  bool Send(std::string_view bytes, int64_t frames);
  // Id of the next stream of this connection.
  uint32_t NextStream() { return std::exchange(next_, next_ + 2); }
  bool StreamsLeft() const { return next_ < kLastStream; }
  void Leave();
  Peer& peer() { return *peer_; }

 private:
  static constexpr uint32_t kLastStream = 0x7fffff00;

  void CountEnd();

  const AttackPlan& plan_;
  AttackTally& tally_;
  const PeerOptions options_;
  std::unique_ptr<Peer> peer_;
  TimePoint not_before_{};
  uint32_t next_ = 1;
  bool fresh_ = false;
};

// The address of the attack's n-th peer.
std::string SourceOf(const AttackPlan& plan, int n);
// Whether the attack continues.
bool GoesOn(const AttackPlan& plan);
// A moment from now, at most the end of the attack.
TimePoint Soon(const AttackPlan& plan);

// Opens `count` connections and calls `turn`, which sends something, on each in turn
// until the attack ends.
void RunByTurns(const AttackPlan& plan, AttackTally& tally, int count,
                const PeerOptions& options, const std::function<void(Attacker&)>& turn);

}  // namespace mnemon::wire
