// SPDX-License-Identifier: MIT
// Recomputes on one thread what a session must have been all the time, from its log,
// and compares.
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

  // Fails the test if a call generated other tokens, or a look saw another history or
  // state.
  void Check(const SessionLog& log);
  // Checks that this is what is left of the session checked last.
  void CheckEnd(const std::string& snapshot);

 private:
  // The newest of histories_ changed by `change`, which must match what it did.
  History After(const SessionLog& log, const Change& change);
  // Whether `seen` is a history, or a prefix of one, that existed at that time.
  bool Fits(const SessionLog& log, const Look& look, const History& seen) const;
  // The same if only the number of tokens is known.
  bool FitsSize(const SessionLog& log, const Look& look) const;
  // Decodes, and compares the state.
  Snapshot Read(const std::string& bytes);
  // The numbers of the state after these tokens.
  UnsetFloats StateAfter(std::span<const int32_t> tokens);

  const ToyState state_;
  ToyDecoder decoder_;
  std::vector<History> histories_;  // before the first change, and after each
};

}  // namespace mnemon
