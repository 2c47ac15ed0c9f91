// SPDX-License-Identifier: MIT
// What attacks share: connections that are opened anew when the server cuts them, and
// the tally of it.
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

// One connection of an attack, opened anew, not at once, when it was cut.
class Attacker {
 public:
  Attacker(const AttackPlan& plan, AttackTally& tally, const PeerOptions& options = {});
  ~Attacker();

  // Whether there is a connection, started, on which frames can be sent.
  bool Ready();
  // Whether the connection is one that Ready has opened since the last call.
  bool Fresh() { return std::exchange(fresh_, false); }
  // Sends `bytes`, `frames` of them; waits shortly where the server takes none.
  bool Send(std::string_view bytes, int64_t frames);
  // The next stream of this connection.
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
// Whether the attack goes on.
bool GoesOn(const AttackPlan& plan);
// A moment from now, at most the end of the attack.
TimePoint Soon(const AttackPlan& plan);

// `count` connections, on each of which `turn` is called by turns until the attack
// ends; it sends something.
void RunByTurns(const AttackPlan& plan, AttackTally& tally, int count,
                const PeerOptions& options, const std::function<void(Attacker&)>& turn);

}  // namespace mnemon::wire
