// SPDX-License-Identifier: MIT
// The calls of one runner that have a permit or deliver, by phase.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "server/calls/call.h"

namespace mnemon {

// Owned by the runner's thread. A call is on one of the lists, at Call::at.
struct RunnerCalls {
  using Time = std::chrono::steady_clock::time_point;
  using List = std::list<std::shared_ptr<Call>>;

  List starting;  // have a permit, wait for blocks
  List running;   // but for those below
  // Running calls that wait for their callers and take part in no step under way. A
  // round passes over them until something comes from outside or is due: who changes
  // one calls RunnerScope::LookAtStalled first.
  List stalled;
  List ending;      // end with the next Publish, and deliver then
  List delivering;  // by Call::stalled_since, as is the next one
  List unread;      // deliver too, and have not ended for kUnread since then
  List over;        // until the next Publish

  // What the stalled ones add to the counts of a round.
  struct Stalled {
    std::optional<Time> due;       // RunnerScope::DueOf, the first
    std::optional<Time> deadline;  // likewise
    int64_t named = 0;
  };
  Stalled stalled_counts;

  int32_t endings = 0;       // calls with an `ending`
  int32_t waiting_ends = 0;  // calls with an `end_later`
  // Of calls that ended in this round: permits, of them those of calls on sessions, and
  // the generated tokens of those that ended by themselves, as many as fit.
  int32_t ended_permits = 0;
  int32_t ended_named = 0;
  std::vector<int64_t> ended_generated;

  // Whether any call runs.
  bool AnyRuns() const { return !running.empty() || !stalled.empty(); }
  List& ListOf(const Call& call) {
    switch (call.phase) {
      case Call::Phase::kWaiting:
        return starting;
      case Call::Phase::kRunning:
        return running;
      case Call::Phase::kDelivering:
        if (call.delivery.ending) return ending;
        return call.delivery.unread ? unread : delivering;
      case Call::Phase::kOver:
        break;
    }
    return over;
  }
};

}  // namespace mnemon
