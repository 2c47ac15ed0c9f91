// SPDX-License-Identifier: MIT
// Computes on one thread what a session must have been all the time, from its log, and
// compares.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/snapshots/snapshot.h"
#include "tests/fakes/toy_decoder.h"
#include "tests/server/engine/session_log.h"

namespace mnemon {

class SessionOracle {
 public:
  static constexpr SnapshotLimits kLimits{.tokens = 1 << 20,
                                          .state_bytes = int64_t{1} << 30};

  explicit SessionOracle(ToyState state) : state_(state), decoder_(state, 4096) {}

  // Fails the test where a call has generated other tokens, or a look has seen another
  // history or state.
  void Check(const SessionLog& log);
  // Of the session that was checked last: this is what is left of it.
  void CheckEnd(const std::string& snapshot);

 private:
  // What `change` makes of the newest of histories_, which has to fit what it did.
  History After(const SessionLog& log, const Change& change);
  // Whether `seen` is a history, or the first tokens of one, that was there to see.
  bool Fits(const SessionLog& log, const Look& look, const History& seen) const;
  // Likewise, where only the number of tokens is known.
  bool FitsSize(const SessionLog& log, const Look& look) const;
  // Decodes, and compares the state.
  Snapshot Read(const std::string& bytes);
  // The numbers of the state after these tokens.
  UnsetFloats StateAfter(std::span<const int32_t> tokens);

  const ToyState state_;
  ToyDecoder decoder_;
  std::vector<History> histories_;  // before the first change, and behind each
};

}  // namespace mnemon
