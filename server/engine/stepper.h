// SPDX-License-Identifier: MIT
// One model call for some sessions, and the sampling of their next tokens. The edge at
// which a model's exceptions and bad logits turn into the status of one call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "model/decoder/decoder.h"
#include "model/sampling/logprobs.h"
#include "server/engine/session.h"

namespace mnemon {

// Some tokens for one call.
struct Feed {
  std::shared_ptr<Call> call;
  int64_t position = 0;  // == fed
  int64_t count = 0;     // at least 1
  int64_t kept = 0;      // Call::kept()

  // Results. Nothing of them is set when the step failed as a whole and each call is to
  // be tried alone.
  bool fed = false;
  std::optional<int32_t> token;  // when the feed reached the end of the history
  std::optional<TokenLogprobs> logprobs;  // of `token`, where wanted
  // Of a scoring call: the tokens that its fed ones foretell, from Scoring::next on.
  std::vector<TokenLogprobs> judged;
  absl::Status status;  // not OK: this call's own failure
};

// Owned by the engine thread.
class Stepper {
 public:
  // Both outlive the stepper.
  Stepper(Decoder& decoder, StateArena& arena) : decoder_(decoder), arena_(arena) {}

  // Feeds all, and samples where the end of a history is reached. Calls of several
  // feeds that fail together are marked to be stepped alone.
  void Run(std::span<Feed> feeds);

 private:
  absl::Status Step(std::span<const Feed> feeds, bool& thrown);
  LogitsMode ModeOf(const Feed& feed) const;
  absl::Status SampleInto(Feed& feed, std::span<const float> logits);
  // `logits`: [count, V].
  absl::Status JudgeInto(Feed& feed, std::span<const float> logits);

  Decoder& decoder_;
  StateArena& arena_;
  std::vector<Segment> segments_;
  std::vector<float> logits_;
  SamplerScratch sampler_;
};

}  // namespace mnemon
